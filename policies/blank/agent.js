// Runs from its top in each turn. What it may do, and how much of it, stands in agent-policy.json.
emit({ kind: "greeted", name: context.name });
close(`hello ${context.name}`);
