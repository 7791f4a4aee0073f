# Adds up an invoice, sleeps, and says what it came to. What it may import, and emit, is in its policy.
from invoice import total

if context.get("scheduler_resume"):
    shown = import_value("money", "shown")
    close(shown(state.get("total")))
else:
    state.set("total", total(context["items"]))
    emit({"kind": "total", "cents": state.get("total")})
    scheduler.sleep(25)
