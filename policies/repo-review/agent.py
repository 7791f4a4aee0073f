# Looks at the added lines of context["diff"]. What it finds, a person accepts or rejects.
import re

RULES = {
    "secret": re.compile(r"""(password|secret|token|api_?key)\w*\s*[:=]\s*["'][^"']+["']""", re.IGNORECASE),
    "debug": re.compile(r"^\s*(print\(|console\.log\(|debugger\b)"),
    "todo": re.compile(r"\b(TODO|FIXME|XXX)\b"),
    "long-line": re.compile(r"^.{160,}$"),
}


def review(diff):
    findings = []
    file = ""
    for line in diff.split("\n"):
        if line.startswith("+++ "):
            file = line[4:].removeprefix("b/")
        elif line.startswith("+"):
            hits = [rule for rule, pattern in RULES.items() if pattern.search(line[1:])]
            findings += [{"file": file, "rule": rule, "line": line[1:200]} for rule in hits]
    return findings


def finish(verdict, findings):
    emit({"kind": "reviewed", "findings": len(findings), "verdict": verdict})
    close({"verdict": verdict, "findings": findings})


resume = context.get("scheduler_resume")
if resume:
    finish("accepted" if resume["result"]["accept"] else "rejected", state.get("findings"))
else:
    findings = review(context["diff"])
    for finding in findings:
        emit({"kind": "finding", **finding})
    if not findings:
        finish("clean", findings)
    else:
        state.set("findings", findings)
        scheduler.wait_for_input(
            "review",
            {"findings": findings},
            schema={"type": "object", "properties": {"accept": {"type": "boolean"}}, "required": ["accept"]},
        )
