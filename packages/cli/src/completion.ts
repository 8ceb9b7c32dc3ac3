import { quoted } from "@diskmesh/domain";
import type { Action } from "./action.js";
import { UsageError } from "./exit-codes.js";

/** Returns a shell script that completes action names and then the options of the typed action. */
export function completionOf(shell: string, actions: readonly Action[]): string {
  if (shell === "bash") return bash(actions);
  // zsh supports bash completions.
  if (shell === "zsh") return `autoload -U +X bashcompinit && bashcompinit\n${bash(actions)}`;
  throw new UsageError(`there is no completion for ${quoted(shell)}: give bash or zsh`);
}

function bash(actions: readonly Action[]): string {
  const cases = actions.map(
    (action) => `    ${nameOf(action)}) words="${[...flagsOf(action), ...GLOBAL].join(" ")}" ;;`,
  );
  const names = [...actions.map(nameOf), "completion"];
  return `_diskmesh() {
  local words="${[...names, ...GLOBAL].join(" ")}" word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in
${cases.join("\n")}
    completion) words="bash zsh" ;;
    esac
  done
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _diskmesh diskmesh
`;
}

const GLOBAL = ["--json", "--state", "--help", "--version"];

function nameOf({ usage }: Action): string {
  return usage.split(" ")[0] as string;
}

function flagsOf({ options = [] }: Action): string[] {
  return options.map(([flags]) => flags.split(" ")[0] as string);
}
