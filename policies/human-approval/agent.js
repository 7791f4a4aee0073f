// Asks a person about context.subject, for context.days at most. No answer is a no.
const resume = context.scheduler_resume;

if (!resume) {
  emit({ kind: "asked", subject: context.subject });
  scheduler.waitForInput("approval", { subject: context.subject }, {
    schema: {
      type: "object",
      properties: { approved: { type: "boolean" }, comment: { type: "string", maxLength: 1000 } },
      required: ["approved"],
      additionalProperties: false,
    },
    timeout_ms: context.days * 24 * 60 * 60 * 1000,
  });
} else {
  const approved = !resume.error && resume.result.approved;
  const why = resume.error ? resume.error.message : resume.result.comment ?? "no comment";
  emit({ kind: "decided", approved, why });
  close({ subject: context.subject, approved, why });
}
