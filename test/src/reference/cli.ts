import { type Action, allActions } from "@diskmesh/cli";
import { pageHead } from "./markdown.js";

const HEAD = pageHead(
  "The diskmesh command: all actions",
  "[The guide](../guides/command-line.md) says where the command finds a mesh, and what its exit codes mean.",
  "Every action takes `--json` (answers as JSON), `--state <folder>` and `--help`.",
);

/** Returns the text of docs/reference/cli.md. */
export async function cliPage(): Promise<string> {
  const actions = await allActions();
  return `${[HEAD, ...actions.map(section)].join("\n\n")}\n`;
}

function section({ usage, summary, options = [], example }: Action): string {
  const [name = ""] = usage.split(" ");
  const flags = options.map(([flag, meaning]) => `- \`${flag}\`: ${meaning}`);
  const parts = [`## ${name}`, `\`diskmesh ${usage}\`: ${summary}.`, flags.join("\n"), `Example: \`${example}\``];
  return parts.filter((part) => part !== "").join("\n\n");
}
