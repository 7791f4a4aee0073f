// Adds up an invoice, sleeps, and says what it came to. What it may import, and emit, is in its policy.
import { total } from "./invoice.js";

if (context.scheduler_resume) {
  const shown = await importValue("money", "shown");
  close(shown(state.get("total")));
} else {
  state.set("total", total(context.items));
  emit({ kind: "total", cents: state.get("total") });
  scheduler.sleep(25);
}
