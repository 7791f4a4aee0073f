# Sleeps once, durably: the process ends, and a later tick goes on here.
if context.get("scheduler_resume"):
    emit({"kind": "awake"})
    close({"slept_ms": context["nap_ms"]})
else:
    emit({"kind": "sleeping"})
    scheduler.sleep(context["nap_ms"])
