"""One agent turn: the parent's side (launcher, session), the child's side (child, host, one file a language)."""
