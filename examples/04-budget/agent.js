// Wants a second turn, which its policy does not grant.
emit({ kind: "turn", resumed: Boolean(context.scheduler_resume) });
if (!context.scheduler_resume) scheduler.sleep(0);
