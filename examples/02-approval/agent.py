# Asks a person, and goes on with the answer.
resume = context.get("scheduler_resume")
if resume:
    emit({"kind": "decided", "approved": resume["result"]["approved"]})
    close(resume["result"])
else:
    scheduler.wait_for_input(
        "approval",
        {"subject": "deploy"},
        schema={"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]},
    )
