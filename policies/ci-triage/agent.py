# Says why a build failed, by the first line of context["log"] that tells; where none does, a person says it.
import re

CAUSES = {
    "memory": r"out of memory|oom-?kill|MemoryError|exit(ed with)? (code )?137",
    "timeout": r"timed? ?out|deadline exceeded",
    "dependency": r"could not resolve|no matching distribution|ERESOLVE|lockfile",
    "infrastructure": r"no space left|connection (reset|refused)|runner (lost|shut)",
    "lint": r"\b(eslint|ruff|mypy|flake8)\b.*\berror|would reformat",
    "test": r"^FAILED |\bassert(ion)?\b|--- FAIL",
}


def finish(cause, by, line):
    told = {"cause": cause, "by": by, "line": line[:200]}
    emit({"kind": "triaged", **told})
    close(told)


def classify(log):
    for line in log.split("\n"):
        for cause, pattern in CAUSES.items():
            if re.search(pattern, line, re.IGNORECASE):
                return cause, line
    return None


resume = context.get("scheduler_resume")
found = None if resume else classify(context["log"])
if resume:
    finish(resume["result"]["cause"], "person", "")
elif found:
    finish(found[0], "rule", found[1])
else:
    audit_note("no line of the log tells why")
    scheduler.wait_for_input(
        "cause",
        {"log": context["log"][-4000:]},
        schema={"type": "object", "properties": {"cause": {"enum": list(CAUSES)}}, "required": ["cause"]},
    )
