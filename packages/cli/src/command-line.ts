import type { Writable } from "node:stream";
import { DomainError, quoted, TimeoutError, VERSION, visible } from "@diskmesh/domain";
import { Command, CommanderError } from "commander";
import { type Action, type Options, textOption } from "./actions/action.js";
import { completionOf } from "./actions/completion.js";
import { actionsFor } from "./actions/index.js";
import { inContext } from "./mesh/contexts.js";
import { Mesh } from "./mesh/mesh.js";
import { failureText } from "./mesh/peer-clock.js";
import { EndedWith, EXIT_CODES, exitCodeOf, kindOfExit, UsageError } from "./output/exit-codes.js";
import { FORMATS, loadYaml, Output, type OutputOptions } from "./output/output.js";

export type { Action } from "./actions/action.js";
export { allActions } from "./actions/index.js";

export interface Surroundings {
  readonly out: Writable & { readonly isTTY?: boolean };
  readonly err: Writable & { readonly isTTY?: boolean };
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly workingFolder: string;
  readonly signal: AbortSignal;
  /**
   * Maximum time of a command that does not wait and is not open-ended (see Action.isOpenEnded); `TOTAL_DEADLINE_MS` by
   * default.
   */
  readonly totalDeadlineMs?: number;
  /** Default deadline of a call in ms; 30 s by default. */
  readonly callDeadlineMs?: number;
}

/** Sufficient for all pages of a list of a million devices. */
const TOTAL_DEADLINE_MS = 120_000;

const AFTER_HELP = `
Exit codes: 0 done, 1 refused or failed, 2 wrong command line, 3 no service that can do it answers, 4 accepted but not
done yet, 5 possibly done. A command without --wait that transfers no data gives up after 2 minutes; watch never does.`;

export async function runCommandLine(args: readonly string[], surroundings: Surroundings): Promise<number> {
  const isJson = wantsJson(args);
  try {
    const program = programOf(surroundings, await actionsFor(args), isJson);
    await program.parseAsync([...args], { from: "user" });
    return EXIT_CODES.done;
  } catch (error) {
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return EXIT_CODES.done;
      // Commander itself writes the text for people.
      if (isJson) tellFailure(surroundings, isJson, EXIT_CODES.usage, error.message.replace(/^error: /, ""));
      return EXIT_CODES.usage;
    }
    if (surroundings.signal.aborted) return EXIT_CODES.unknown;
    const exitCode = exitCodeOf(error);
    // An action that has printed its failure printed it in the wanted format.
    if (!(error instanceof EndedWith))
      tellFailure(surroundings, isJson, exitCode, await failureText(addressIn(error), error), error);
    return exitCode;
  }
}

/** Returns whether the output is to be JSON, also where the command line cannot be parsed. */
function wantsJson(args: readonly string[]): boolean {
  return args.some((arg, at) => {
    if (arg === "--json" || arg === "-ojson" || arg === "--output=json") return true;
    return arg === "json" && ["-o", "--output"].includes(args[at - 1] ?? "");
  });
}

/** Prints a failure: for people to standard error, as JSON where the answer would be. */
function tellFailure(
  { out, err }: Surroundings,
  isJson: boolean,
  exitCode: number,
  text: string,
  error?: unknown,
): void {
  const message = visible(text);
  if (!isJson) {
    err.write(`diskmesh: ${message}\n`);
    return;
  }
  const reason = error instanceof DomainError ? { reason: error.reason, about: error.about } : {};
  const told = { error: { code: exitCode, kind: kindOfExit(exitCode), message, ...reason } };
  out.write(`${visible(JSON.stringify(told, undefined, 2))}\n`);
}

/** Returns the address of the failed call; empty for other errors. */
const addressIn = (error: unknown): string => (error instanceof DomainError && error.about.address) || "";

function programOf(surroundings: Surroundings, actions: readonly Action[], isJson: boolean): Command {
  const { out, err } = surroundings;
  const program = new Command("diskmesh")
    .description("Shows and controls a mesh of disks.")
    .option("--state <folder>", "state folder of `npm start` (the nearest .diskmesh; also DISKMESH_STATE)")
    .option("--context <name>", "mesh whose addresses and certificate are in NAME.env (also DISKMESH_CONTEXT)")
    .option("-o, --output <format>", `format: ${FORMATS.join(", ")} (table)`)
    .option("--json", "print JSON, for scripts: short for -o json", false)
    .option("--sort <column>", "sort a list by a column; -COLUMN reverses the order")
    .option("-l, --selector <conditions>", "list only items with COLUMN=VALUE or COLUMN!=VALUE, separated by commas")
    .version(`diskmesh ${VERSION}`, "--version", "print the version")
    .addHelpText("after", AFTER_HELP)
    .configureOutput({
      writeOut: (text) => out.write(text),
      writeErr: (text) => (isJson ? undefined : err.write(text)),
    })
    .exitOverride()
    .helpCommand(false);
  for (const action of actions) addAction(program, action, surroundings);
  // Typed by habit. Hidden, because it does nothing.
  program
    .command("ls", { hidden: true })
    .allowExcessArguments()
    .action(() => {
      throw new UsageError("there is no ls: list with diskmesh hosts, devices, disks, tasks, instances or pools");
    });
  program
    .command("completion <shell>")
    .description("print the completion script for bash or zsh")
    .addHelpText("after", "\nExample:\n  source <(diskmesh completion bash)")
    .action((shell: string) => {
      out.write(completionOf(shell, actions));
    });
  return program;
}

function addAction(program: Command, action: Action, surroundings: Surroundings): void {
  const command = program.command(action.usage).description(action.summary);
  for (const [flags, meaning] of action.options ?? []) command.option(flags, meaning);
  command.addHelpText("after", `\nExample:\n  ${action.example}`);
  command.action(async () => {
    const options: Options = command.optsWithGlobals();
    refuseEmpty(command, options);
    const args = command.processedArgs.flat().map((arg: string | undefined) => arg ?? "");
    await run(action, args, options, surroundings);
  });
}

/**
 * Refuses empty option values, which mostly come from unset shell variables. The registry would treat an empty host as
 * any host.
 */
function refuseEmpty(command: Command, options: Options): void {
  const argument = command.registeredArguments.find((_, at) => [command.processedArgs[at]].flat().includes(""));
  if (argument !== undefined) throw new UsageError(`<${argument.name()}> is empty`);
  const option = Object.keys(options).find((name) => options[name] === "");
  if (option !== undefined) throw new UsageError(`--${option.replace(/[A-Z]/g, "-$&").toLowerCase()} is empty`);
}

async function run(
  action: Action,
  args: readonly string[],
  options: Options,
  { out, err, environment, workingFolder, signal, totalDeadlineMs = TOTAL_DEADLINE_MS, callDeadlineMs }: Surroundings,
): Promise<void> {
  if (args.some((arg) => arg.length > 1_000)) throw new UsageError("an argument is longer than 1,000 characters");
  const state = typeof options.state === "string" ? options.state : undefined;
  const inMesh = inContext(textOption(options, "context"), environment);
  const mesh = new Mesh({ state, environment: inMesh, workingFolder, callDeadlineMs });
  const shape = shapeOf(options);
  const toYaml = shape.format === "yaml" ? await loadYaml() : undefined;
  const output = new Output({ out, err, environment, ...shape, toYaml });
  try {
    const work = action.run({ mesh, output, args, options, environment, signal });
    const goesOn = action.isOpenEnded || Boolean(options.wait);
    await (goesOn ? work : within(totalDeadlineMs, action, work));
  } finally {
    mesh.close();
  }
}

function shapeOf(options: Options): Pick<OutputOptions, "format" | "sort" | "selector"> {
  const wanted = textOption(options, "output") || (options.json === true ? "json" : "table");
  const format = FORMATS.find((each) => each === wanted);
  if (format === undefined) throw new UsageError(`format ${quoted(wanted)} is none of ${FORMATS.join(", ")}`);
  return { format, sort: textOption(options, "sort"), selector: textOption(options, "selector") };
}

/** Rejects when the work exceeds the deadline. The caller then closes the mesh, which cancels the calls. */
async function within(totalDeadlineMs: number, { usage }: Action, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    const message = `${usage.split(" ")[0]} has not ended within ${totalDeadlineMs / 1_000} s: see \`diskmesh status\``;
    timer = setTimeout(() => reject(new TimeoutError(message)), totalDeadlineMs);
  });
  await Promise.race([work, late]).finally(() => clearTimeout(timer));
}
