// Asks a person, and goes on with the answer.
const resume = context.scheduler_resume;
if (resume) {
  emit({ kind: "decided", approved: resume.result.approved });
  close(resume.result);
} else {
  scheduler.waitForInput("approval", { subject: "deploy" }, {
    schema: { type: "object", properties: { approved: { type: "boolean" } }, required: ["approved"] },
  });
}
