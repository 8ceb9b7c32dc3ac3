import { writeSync } from "node:fs";
import { DomainError, type Logger, Redactor, secretsNamedIn, TimeoutError } from "@diskmesh/domain";
import type { z } from "zod";
import { loadConfig, type ServiceConfig } from "./config.js";
import { Lifecycle } from "./lifecycle.js";
import { createLogger } from "./log.js";
import { startTelemetry } from "./telemetry.js";

/** Builds and starts a service. What it adds to the lifecycle is stopped in reverse order, also when it throws. */
export type StartService<Config> = (lifecycle: Lifecycle, config: Config, log: Logger) => Promise<void>;

/**
 * Runs a service process until it is told to stop: SIGTERM or SIGINT stop it cleanly with exit code 0, a second one at
 * once; `lifecycle.fail` and a start that fails end it with exit code 1. Never returns: it exits the process.
 */
export async function runService<Schema extends z.ZodType<ServiceConfig>>(
  name: string,
  schema: Schema,
  start: StartService<z.output<Schema>>,
): Promise<never> {
  try {
    const config = loadConfig(schema, process.argv.slice(2), process.env);
    const redactor = new Redactor(secretsNamedIn(config));
    const log = createLogger({ service: name, ...config.log, redactor });
    return await runWith(name, config, log, redactor, start);
  } catch (error) {
    return exitWith(name, "cannot start", error);
  }
}

async function runWith<Config extends ServiceConfig>(
  name: string,
  config: Config,
  log: Logger,
  redactor: Redactor,
  start: StartService<Config>,
): Promise<never> {
  const lifecycle = new Lifecycle(log);
  watchProcess(name, lifecycle, log);
  const telemetry = await startTelemetry({ service: name, ...config.telemetry, redactor });
  lifecycle.use("telemetry", telemetry);
  const stopRequested = new Promise<void>((resolve) => {
    lifecycle.stopping.addEventListener("abort", () => resolve(), { once: true });
  });
  const started = start(lifecycle, config, log).then(
    () => undefined,
    // What a start throws because it was interrupted is no failure.
    (error: unknown) => (lifecycle.stopping.aborted ? undefined : { error }),
  );
  const failure = await Promise.race([started, stopRequested.then(() => undefined)]);
  if (!failure && !lifecycle.stopping.aborted) {
    log.info({}, `${name} has started`);
    await stopRequested;
  }
  lifecycle.beginStop();
  if (!(await withinMs(config.stopTimeoutMs, stopEverything(lifecycle, started)))) {
    const limit = `not all parts stopped within ${config.stopTimeoutMs} ms (stopTimeoutMs)`;
    return exitWith(name, "cannot stop cleanly", new TimeoutError(limit));
  }
  if (failure) return exitWith(name, "cannot start", failure.error);
  if (lifecycle.failure) return exitWith(name, "has failed", lifecycle.failure.error);
  log.info({}, `${name} has stopped`);
  process.exit(0);
}

/** A start that was interrupted may add more on its way out, which is stopped as well. */
async function stopEverything(lifecycle: Lifecycle, started: Promise<unknown>): Promise<void> {
  await lifecycle.stopAll();
  await started;
  await lifecycle.stopAll();
}

function watchProcess(name: string, lifecycle: Lifecycle, log: Logger): void {
  for (const signal of ["SIGTERM", "SIGINT"] as const)
    process.on(signal, () => {
      if (lifecycle.stopping.aborted) {
        log.warn({}, `${name} was told to stop a second time and exits at once`);
        process.exit(1);
      }
      log.info({}, `${name} stops on ${signal}`);
      lifecycle.beginStop();
    });
  // A bug that nobody caught: what is in memory can no longer be trusted, what is durable can.
  process.on("uncaughtException", (error) => exitWith(name, "has failed", error));
  process.on("unhandledRejection", (error) => exitWith(name, "has failed", error));
}

async function withinMs(limitMs: number, work: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), limitMs);
  });
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}

/** One line for what the operator can mend; a stack only for bugs. Synchronous, or the exit would cut it off. */
function exitWith(name: string, what: string, error: unknown): never {
  const known = error instanceof DomainError;
  const text =
    known || !(error instanceof Error) ? String(known ? error.message : error) : (error.stack ?? error.message);
  try {
    writeSync(2, `${name} ${what}: ${text}\n`);
  } catch {
    // There is no room for it; the exit code says as much as can be said.
  }
  process.exit(1);
}
