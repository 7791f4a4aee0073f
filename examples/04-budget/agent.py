# Wants a second turn, which its policy does not grant.
emit({"kind": "turn", "resumed": "scheduler_resume" in context})
if "scheduler_resume" not in context:
    scheduler.sleep(0)
