import { DomainError, type Logger, messageOf, Redactor, secretsNamedIn, VERSION } from "@diskmesh/domain";
import type { z } from "zod";
import { type Actions, type Command, type Commands, commandOf, helpOf } from "../config/command-line.js";
import { ConfigError } from "../config/config-error.js";
import { EXIT_CODES } from "../config/exit-codes.js";
import { checkConfig, type LoadedConfig, loadConfig } from "../config/load.js";
import { secretsOf } from "../config/places.js";
import type { ServiceConfig } from "../config/service-config.js";
import { createLogger, type LoggerOptions, type ServiceLogger } from "../telemetry/log.js";
import { startTelemetry } from "../telemetry/telemetry.js";
import { withinMs } from "../time/within-ms.js";
import { Lifecycle } from "./lifecycle.js";
import { type ApplyReload, Reload } from "./reload.js";
import { ServiceManager } from "./service-manager.js";

/**
 * Builds and starts a service. Returns what applies a reloaded config, if the service has keys that can change.
 * Resources added to the lifecycle are stopped in reverse order, also when this function throws.
 */
export type StartService<Config> = (
  lifecycle: Lifecycle,
  config: Config,
  log: Logger,
) => Promise<ApplyReload<Config> | undefined> | Promise<void>;

/**
 * Timeout of the whole stop. Longer than the stop limits of all resources together, and below the 10 s after which
 * Docker kills a container.
 */
const STOP_TIMEOUT_MS = 4_500;
/** A stop that takes longer than this logs the resource that it waits for. */
const REPORT_AFTER_MS = 1_000;

/** Something that a service's program does once with its config, for example `--end-sessions`, and exits. */
export interface ServiceAction<Config> {
  readonly help: string;
  readonly run: (config: Config, log: Logger) => Promise<void>;
}

/** Something that a service's program does once without a config, for example `join`, and exits. */
export interface ServiceCommand {
  readonly help: string;
  /** Returns the text to print. */
  readonly run: (args: readonly string[]) => Promise<string>;
}

/**
 * Runs a service process until a signal stops it. SIGTERM or SIGINT stops it cleanly, a second signal at once; SIGHUP
 * reloads its config. Never returns: it exits the process with one of EXIT_CODES.
 */
export async function runService<Schema extends z.ZodType<ServiceConfig>>(
  name: string,
  schema: Schema,
  start: StartService<z.output<Schema>>,
  options: Pick<LoggerOptions, "maxBacklogBytes"> & {
    /** Actions by the name of their option. */
    readonly actions?: Readonly<Record<string, ServiceAction<z.output<Schema>>>>;
    /** Commands by their first word. */
    readonly commands?: Readonly<Record<string, ServiceCommand>>;
    /** Returns lines for `--check-config` that say what the config would change on the running service. */
    readonly compareWithRunning?: (config: z.output<Schema>) => Promise<readonly string[]>;
    /** Returns warnings for `--check-config` about programs of the host that disturb the service. */
    readonly warnOfHost?: (config: z.output<Schema>) => Promise<readonly string[]>;
  } = {},
): Promise<never> {
  const { actions = {}, commands = {}, compareWithRunning = nothing, warnOfHost = nothing, ...logLimits } = options;
  const [actionHelps, commandHelps] = [helpsOf(actions), helpsOf(commands)];
  let command: Command;
  let loaded: LoadedConfig<z.output<Schema>>;
  try {
    command = commandOf(process.argv.slice(2), process.env, actionHelps, commandHelps);
    if (command.does === "command") return await runCommand(name, command.command, commands, command.args);
    if (command.does === "check") return await check(schema, command.file, compareWithRunning, warnOfHost);
    if (command.does !== "run" && command.does !== "act") return answer(name, command, actionHelps, commandHelps);
    loaded = loadConfig(schema, command.file);
  } catch (error) {
    return exitWith(name, createLogger({ service: name, level: "info" }), "cannot start", error);
  }
  const { file } = command;
  const { config, warnings } = loaded;
  const redactor = new Redactor([...secretsNamedIn(config), ...secretsOf(schema, config)]);
  const log = createLogger({ service: name, ...config.log, ...logLimits, redactor });
  for (const warning of warnings) log.warn({}, warning);
  if (command.does === "act") {
    await actions[command.action]?.run(config, log).catch((error) => exitWith(name, log, "has failed", error));
    process.exit(EXIT_CODES.stopped);
  }
  const reload = new Reload(config, () => loadConfig(schema, file), log);
  try {
    return await runWith(name, config, log, redactor, reload, start);
  } catch (error) {
    return exitWith(name, log, "cannot start", error);
  }
}

const helpsOf = (of: Readonly<Record<string, { readonly help: string }>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(of).map(([word, { help }]) => [word, help]));

/** Runs a command for a person, who reads plain text and no log lines. */
async function runCommand(
  name: string,
  word: string,
  commands: Readonly<Record<string, ServiceCommand>>,
  args: readonly string[],
): Promise<never> {
  ignoreClosedPipes();
  try {
    process.stdout.write((await commands[word]?.run(args)) ?? "");
  } catch (error) {
    process.stderr.write(`diskmesh-${name} ${word}: ${nameOf(error)}${messageOf(error)}\n`);
    process.exit(exitCodeOf(error));
  }
  process.exit(EXIT_CODES.stopped);
}

function exitCodeOf(error: unknown): number {
  if (error instanceof ConfigError) return EXIT_CODES.config;
  return error instanceof DomainError ? EXIT_CODES.failed : EXIT_CODES.bug;
}

/** Answers a command line such as `--help` without starting the service. */
function answer(
  name: string,
  command: Exclude<Command, { readonly does: "run" | "act" | "check" | "command" }>,
  actions: Actions,
  commands: Commands,
): never {
  ignoreClosedPipes();
  process.stdout.write(command.does === "help" ? helpOf(name, actions, commands) : `diskmesh-${name} ${VERSION}\n`);
  process.exit(EXIT_CODES.stopped);
}

async function check<Schema extends z.ZodType>(
  schema: Schema,
  file: string,
  compareWithRunning: (config: z.output<Schema>) => Promise<readonly string[]>,
  warnOfHost: (config: z.output<Schema>) => Promise<readonly string[]>,
): Promise<never> {
  ignoreClosedPipes();
  const code = tellWhatIsWrong(schema, file);
  if (code === EXIT_CODES.stopped) {
    const { config } = loadConfig(schema, file);
    process.stderr.write((await warnOfHost(config)).map((warning) => `warning: ${warning}\n`).join(""));
    process.stdout.write((await compareWithRunning(config)).map((line) => `${line}\n`).join(""));
  }
  process.exit(code);
}

const nothing = async (): Promise<readonly string[]> => [];

/** The reader of the output may close the pipe early. */
function ignoreClosedPipes(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
}

function tellWhatIsWrong(schema: z.ZodType, file: string): number {
  const { problems, warnings } = checkConfig(schema, file);
  const lines = [...warnings.map((warning) => `warning: ${warning}`), ...problems];
  process.stderr.write(lines.map((line) => `${line}\n`).join(""));
  if (problems.length === 0) process.stdout.write(`${file}: good\n`);
  else process.stderr.write(`${file}: ${problems.length} ${problems.length === 1 ? "thing is" : "things are"} wrong\n`);
  return problems.length === 0 ? EXIT_CODES.stopped : EXIT_CODES.config;
}

async function runWith<Config extends ServiceConfig>(
  name: string,
  config: Config,
  log: ServiceLogger,
  redactor: Redactor,
  reload: Reload<Config>,
  start: StartService<Config>,
): Promise<never> {
  const lifecycle = new Lifecycle(log);
  watchProcess(name, lifecycle, log, reload);
  const telemetry = await startTelemetry({
    service: name,
    ...config.telemetry,
    metrics: config.metrics,
    redactor,
    log,
    env: process.env,
  });
  lifecycle.use("telemetry", telemetry);
  const manager = new ServiceManager(process.env, log);
  const stopRequested = new Promise<void>((resolve) => {
    lifecycle.stopping.addEventListener("abort", () => resolve(), { once: true });
  });
  const started = Promise.resolve<unknown>(start(lifecycle, config, log)).then(
    (apply) => {
      if (apply !== undefined) reload.apply = apply as ApplyReload<Config>;
    },
    // An error of a start that a stop interrupted is no failure.
    (error: unknown) => (lifecycle.stopping.aborted ? undefined : { error }),
  );
  const failure = await Promise.race([started, stopRequested.then(() => undefined)]);
  if (!failure && !lifecycle.stopping.aborted) {
    log.info({ version: VERSION }, `${name} started`);
    manager.started();
    await stopRequested;
  }
  lifecycle.beginStop();
  manager.stopping();
  const telling = setTimeout(() => log.info({}, `${name} stop delayed by ${lifecycle.waitsFor}`), REPORT_AFTER_MS);
  const isClean = await withinMs(STOP_TIMEOUT_MS, stopEverything(lifecycle, started));
  clearTimeout(telling);
  const cause = failure ?? lifecycle.failure;
  if (!isClean) {
    const text = `${name} was cut short: it waited for ${lifecycle.waitsFor} and did not stop within ${STOP_TIMEOUT_MS} ms`;
    log.last({ waitsFor: lifecycle.waitsFor }, text);
    if (!cause) process.exit(EXIT_CODES.cutShort);
  }
  if (failure) return exitWith(name, log, "cannot start", failure.error);
  if (cause) return exitWith(name, log, "has failed", cause.error);
  log.info({}, `${name} stopped`);
  process.exit(EXIT_CODES.stopped);
}

/** Waits for an interrupted start, because it may still add resources that must be stopped. */
async function stopEverything(lifecycle: Lifecycle, started: Promise<unknown>): Promise<void> {
  await lifecycle.stopAll();
  await started;
  await lifecycle.stopAll();
}

function watchProcess(name: string, lifecycle: Lifecycle, log: ServiceLogger, reload: { run(): void }): void {
  for (const signal of ["SIGTERM", "SIGINT"] as const)
    process.on(signal, () => {
      if (lifecycle.stopping.aborted) {
        const text = `${name} was told to stop a second time and exits at once; it waited for ${lifecycle.waitsFor}`;
        log.last({}, text);
        process.exit(EXIT_CODES.cutShort);
      }
      log.info({}, `${name} stop requested by ${signal}`);
      lifecycle.beginStop();
    });
  process.on("SIGHUP", () => reload.run());
  // After an uncaught bug the memory cannot be trusted, but the durable state can.
  process.on("uncaughtException", (error) => exitWith(name, log, "has failed", error));
  process.on("unhandledRejection", (error) => exitWith(name, log, "has failed", error));
}

/** Logs an error that an operator can resolve by its message, and a bug with its stack. */
function exitWith(name: string, log: ServiceLogger, what: string, error: unknown): never {
  const isKnown = error instanceof DomainError;
  const code = exitCodeOf(error);
  log.last({ exitCode: code, ...(isKnown ? {} : { error }) }, `${name} ${what}: ${nameOf(error)}${messageOf(error)}`);
  process.exit(code);
}

const nameOf = (error: unknown): string =>
  error instanceof Error && !(error instanceof DomainError) ? `${error.name}: ` : "";
