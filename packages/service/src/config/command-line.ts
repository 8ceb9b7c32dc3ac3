import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { messageOf } from "@diskmesh/domain";
import { ConfigError } from "./config-error.js";
import { EXIT_CODES } from "./exit-codes.js";

export type Command =
  | { readonly does: "run"; readonly file: string }
  | { readonly does: "check"; readonly file: string }
  | { readonly does: "act"; readonly action: string; readonly file: string }
  | { readonly does: "command"; readonly command: string; readonly args: readonly string[] }
  | { readonly does: "help" }
  | { readonly does: "version" };

const OPTIONS = {
  config: { type: "string" },
  "check-config": { type: "string" },
  version: { type: "boolean" },
  help: { type: "boolean", short: "h" },
} as const;

const USAGE = "give --config FILE, --check-config FILE, --version or --help";

/** Options by which a program does something once with its config instead of running, with their help texts. */
export type Actions = Readonly<Record<string, string>>;

/** First words by which a program does something once without a config, with their help texts. */
export type Commands = Readonly<Record<string, string>>;

/**
 * Parses the command line. `argv` excludes the program's own name, like `process.argv.slice(2)`. Throws ConfigError
 * when it is wrong.
 */
export function commandOf(
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  actions: Actions = {},
  commands: Commands = {},
): Command {
  const [first = "", ...args] = argv;
  if (Object.hasOwn(commands, first)) return { does: "command", command: first, args };
  const given = argumentsOf(argv, actions);
  if (given.help) return { does: "help" };
  if (given.version) return { does: "version" };
  const checked = given["check-config"];
  if (checked !== undefined) {
    if (given.config !== undefined) throw new ConfigError(`--config and --check-config exclude each other: ${USAGE}`);
    // An unset shell variable gives an empty name.
    if (checked === "") throw new ConfigError(`--check-config names no file: ${USAGE}`);
    return { does: "check", file: resolve(checked) };
  }
  const file = given.config ?? env.DISKMESH_CONFIG;
  if (!file) throw new ConfigError("no config file: give --config FILE or set DISKMESH_CONFIG");
  const action = Object.keys(actions).find((name) => given[name] === true);
  if (action !== undefined) return { does: "act", action, file: resolve(file) };
  return { does: "run", file: resolve(file) };
}

type Arguments = {
  readonly [Name in keyof typeof OPTIONS]?: (typeof OPTIONS)[Name]["type"] extends "string" ? string : boolean;
};

function argumentsOf(
  argv: readonly string[],
  actions: Actions,
): Arguments & Readonly<Record<string, string | boolean | undefined>> {
  const own = Object.fromEntries(Object.keys(actions).map((name) => [name, { type: "boolean" as const }]));
  try {
    return parseArgs({ args: [...argv], options: { ...own, ...OPTIONS } }).values as ReturnType<typeof argumentsOf>;
  } catch (error) {
    throw new ConfigError(`${messageOf(error)}; ${USAGE}`, { cause: error });
  }
}

export function helpOf(service: string, actions: Actions = {}, commands: Commands = {}): string {
  const acts = Object.entries(actions).map(([name, help]) => `  --${name.padEnd(18)} ${help}\n`);
  const words = Object.entries(commands).map(([name, help]) => `  ${name} ${help}`);
  return `diskmesh-${service}: a service of diskmesh, the control plane for disks on a fleet of hosts.

  --config FILE        runs with this config, a YAML file; without it DISKMESH_CONFIG names one
  --check-config FILE  reports all errors of a config and of the certificates and keys that it names, and exits:
                       with ${EXIT_CODES.stopped} when nothing is, with ${EXIT_CODES.config} else. It opens no store and no port
${acts.join("")}${words.join("")}  --version            says the version, and exits
  --help               says this, and exits

SIGHUP has a running process read its config again. docs/reference/configuration.md has every key, and
docs/operate/health.md every exit code.
`;
}
