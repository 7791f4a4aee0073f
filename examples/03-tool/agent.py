# Calls a tool, durably: the next tick runs it, and hands the outcome to the next turn.
resume = context.get("scheduler_resume")
if resume:
    emit({"kind": "resumed", "got": resume.get("result", resume.get("error"))})
    close(resume.get("result"))
else:
    emit({"kind": "asking"})
    scheduler.call_tool("echo", {"value": context["goal"]})
