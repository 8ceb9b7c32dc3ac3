import { quoted } from "@diskmesh/domain";
import { UsageError } from "../output/exit-codes.js";
import type { Action } from "./action.js";

/** Returns a shell script that completes action names and then the options of the typed action. */
export function completionOf(shell: string, actions: readonly Action[]): string {
  if (shell === "bash") return bash(actions);
  // zsh supports bash completions once its own are initialised, which not every .zshrc does.
  if (shell === "zsh")
    return `(( $+functions[compdef] )) || { autoload -U compinit && compinit -i; }\nautoload -U +X bashcompinit && bashcompinit\n${bash(actions)}`;
  throw new UsageError(`there is no completion for ${quoted(shell)}: give bash or zsh`);
}

function bash(actions: readonly Action[]): string {
  const cases = actions.map((action) => {
    const kind = kindOf(action);
    const kinds = kind === undefined ? "" : ` kind=${kind}`;
    return `    ${nameOf(action)}) choices="${[...flagsOf(action), ...GLOBAL].join(" ")}"${kinds} ;;`;
  });
  const names = [...actions.map(nameOf), "completion"];
  return `_diskmesh() {
  local choices="${[...names, ...GLOBAL].join(" ")}" word kind=""
  for word in "\${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
    case "$word" in
${cases.join("\n")}
    completion) choices="bash zsh" ;;
    esac
  done
  case "\${COMP_WORDS[COMP_CWORD-1]}" in
${Object.entries(AFTER)
  .map(([word, kind]) => `    ${word}) choices="" kind=${kind} ;;`)
  .join("\n")}
${actions
  .flatMap((action) => (action.kinds ? [`    ${nameOf(action)}) choices="${action.kinds.join(" ")}" ;;`] : []))
  .join("\n")}
  esac
  [ -z "$kind" ] || choices="$choices $(diskmesh names "$kind" 2>/dev/null)"
  COMPREPLY=($(compgen -W "$choices" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _diskmesh diskmesh
`;
}

const GLOBAL = ["--json", "--output", "--sort", "--selector", "--context", "--state", "--help", "--version"];

/** Kinds of `diskmesh names` by the argument in an action's usage. */
const OF_ARGUMENT: Readonly<Record<string, string>> = {
  "host-id": "host",
  "host-ids": "host",
  "device-id": "device",
  "disk-name": "disk-name",
  disk: "disk-name",
  deployment: "deployment",
  "instance-id": "instance",
  "task-id": "task",
};

/** Kinds of `diskmesh names` by the word before: an option, or a kind that was typed to `why` or `get`. */
const AFTER: Readonly<Record<string, string>> = {
  ...{ "--host": "host", "--device": "device", "--disk": "disk", "--pool": "pool", "--deployment": "deployment" },
  ...{ host: "host", device: "device", disk: "disk", "dynamic-disk": "disk-name", pool: "pool", vm: "vm" },
  ...{ config: "config", task: "task" },
};

/** Returns the kind of the action's first argument; undefined when its names cannot be listed. */
function kindOf({ usage }: Action): string | undefined {
  const [, argument = ""] = /[<[]([a-z-]+)/.exec(usage) ?? [];
  return OF_ARGUMENT[argument];
}

function nameOf({ usage }: Action): string {
  return usage.split(" ")[0] as string;
}

function flagsOf({ options = [] }: Action): string[] {
  return options.map(([flags]) => flags.split(" ")[0] as string);
}
