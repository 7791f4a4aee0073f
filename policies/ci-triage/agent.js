// Says why a build failed, by the first line of context.log that tells; where none does, a person says it.
const CAUSES = {
  memory: /out of memory|oom-?kill|MemoryError|exit(ed with)? (code )?137/i,
  timeout: /timed? ?out|deadline exceeded/i,
  dependency: /could not resolve|no matching distribution|ERESOLVE|lockfile/i,
  infrastructure: /no space left|connection (reset|refused)|runner (lost|shut)/i,
  lint: /\b(eslint|ruff|mypy|flake8)\b.*\berror|would reformat/i,
  test: /^FAILED |\bassert(ion)?\b|--- FAIL/i,
};

function finish(cause, by, line) {
  const told = { cause, by, line: line.slice(0, 200) };
  emit({ kind: "triaged", ...told });
  close(told);
}

function classify(log) {
  for (const line of log.split("\n")) {
    for (const [cause, pattern] of Object.entries(CAUSES)) if (pattern.test(line)) return [cause, line];
  }
  return null;
}

const resume = context.scheduler_resume;
if (resume) finish(resume.result.cause, "person", "");
else {
  const found = classify(context.log);
  if (found) finish(found[0], "rule", found[1]);
  else {
    auditNote("no line of the log tells why");
    scheduler.waitForInput("cause", { log: context.log.slice(-4000) }, {
      schema: {
        type: "object",
        properties: { cause: { enum: ["test", "timeout", "memory", "dependency", "lint", "infrastructure"] } },
        required: ["cause"],
      },
    });
  }
}
