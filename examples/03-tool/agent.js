// Calls a tool, durably: the next tick runs it, and hands the outcome to the next turn.
const resume = context.scheduler_resume;
if (resume) {
  emit({ kind: "resumed", got: resume.result ?? resume.error });
  close(resume.result);
} else {
  emit({ kind: "asking" });
  scheduler.callTool("echo", { value: context.goal });
}
