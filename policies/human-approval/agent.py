# Asks a person about context["subject"], for context["days"] at most. No answer is a no.
resume = context.get("scheduler_resume")

if not resume:
    emit({"kind": "asked", "subject": context["subject"]})
    scheduler.wait_for_input(
        "approval",
        {"subject": context["subject"]},
        schema={
            "type": "object",
            "properties": {"approved": {"type": "boolean"}, "comment": {"type": "string", "maxLength": 1000}},
            "required": ["approved"],
            "additionalProperties": False,
        },
        timeout_ms=context["days"] * 24 * 60 * 60 * 1000,
    )
else:
    approved = "error" not in resume and resume["result"]["approved"]
    why = resume["error"]["message"] if "error" in resume else resume["result"].get("comment", "no comment")
    emit({"kind": "decided", "approved": approved, "why": why})
    close({"subject": context["subject"], "approved": approved, "why": why})
