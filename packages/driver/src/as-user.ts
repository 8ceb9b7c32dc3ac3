/**
 * Returns the program and arguments, before those of the program to start, that give a process another user. The process
 * has the group of the same name and no other, no capability of its parent, and gains none by a program that it starts.
 * Node's own option for users keeps the capabilities of a parent that is not root.
 */
export function asUser(user: string): readonly string[] {
  return ["setpriv", `--reuid=${user}`, `--regid=${user}`, "--clear-groups", ...WITHOUT_PRIVILEGES, "--"];
}

const WITHOUT_PRIVILEGES = ["--ambient-caps=-all", "--inh-caps=-all", "--no-new-privs"];
