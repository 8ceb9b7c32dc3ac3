import { type BackoffLimits, backoffMs, DomainError, TimeoutError, UnavailableError } from "@diskmesh/domain";
import { AgentError } from "@diskmesh/mbus";
import type { TaskRun } from "../workers/task-run.js";
import type { JobContext } from "./job-context.js";

const BACKOFF: BackoffLimits = { minDelayMs: 100, maxDelayMs: 2_000 };
const PING_TIMEOUT_MS = 1_000;
/** Of what an agent does to a disk: mostly a link, a mount or a file, and done sooner than a second question would be. */
const ANSWER_WITHIN_MS = 50;

/** Of update_settings: stock agents take every field for what is to be from now on. */
export const NO_SETTINGS = { trusted_certs: "", disk_associations: [] } as const;

/**
 * Has an agent do something that may be done twice: when its answer is lost or it is away, it is asked again until the
 * time is over. Agents too old to know the method have nothing to do, unless that is an error.
 */
export async function tellAgent(
  context: JobContext,
  run: TaskRun,
  agentId: string,
  method: string,
  args: readonly unknown[],
  timeoutMs: number,
  unknownMethodIs: "ignored" | "error" = "ignored",
): Promise<void> {
  await askAgent(context, run, agentId, method, args, { timeoutMs, unknownMethodIs });
}

/** The same, for what an agent answers: undefined when it does not know the method. */
export function askAgent(
  context: JobContext,
  run: TaskRun,
  agentId: string,
  method: string,
  args: readonly unknown[],
  { timeoutMs, unknownMethodIs = "ignored" }: { timeoutMs: number; unknownMethodIs?: "ignored" | "error" },
): Promise<unknown> {
  return repeat(context, run, timeoutMs, (leftMs) =>
    context.agents.call(agentId, method, args, {
      signal: run.stopped,
      // So that a lost answer leaves time to ask again.
      requestTimeoutMs: Math.min(context.config.agents.requestTimeoutMs, Math.max(1_000, timeoutMs / 3)),
      timeoutMs: leftMs,
      unknownMethodIs,
      answerWithinMs: ANSWER_WITHIN_MS,
    }),
  );
}

/** Waits until an agent answers, or throws TimeoutError. While it restarts it may answer with errors. */
export async function awaitAgent(context: JobContext, run: TaskRun, agentId: string, timeoutMs: number): Promise<void> {
  try {
    await repeat(
      context,
      run,
      timeoutMs,
      () => context.agents.call(agentId, "ping", [], { signal: run.stopped, timeoutMs: PING_TIMEOUT_MS }),
      (error) => error instanceof AgentError,
    );
  } catch (error) {
    run.checkpoint();
    if (!(error instanceof DomainError)) throw error;
    const details = { cause: error, about: { agent_id: agentId } };
    // Then nothing is known of any agent.
    if (!context.agents.isConnected)
      throw new UnavailableError(
        `agent ${agentId} could not be asked: NATS is away; see that nats-server runs`,
        details,
      );
    throw new TimeoutError(`agent ${agentId} did not answer within ${timeoutMs} ms: ${error.message}`, details);
  }
}

async function repeat<Answer>(
  context: JobContext,
  run: TaskRun,
  timeoutMs: number,
  attempt: (leftMs: number) => Promise<Answer>,
  passes: (error: unknown) => boolean = () => false,
): Promise<Answer> {
  const { clock } = context;
  const endAtMs = clock.monotonicMs() + timeoutMs;
  for (let attempts = 0; ; attempts++) {
    try {
      context.tablet.checkMayAct();
      return await attempt(Math.max(1, endAtMs - clock.monotonicMs()));
    } catch (error) {
      run.checkpoint();
      const delayMs = backoffMs(attempts, BACKOFF, context.random());
      const retryable = (error instanceof DomainError && error.retryable) || passes(error);
      if (!retryable || clock.monotonicMs() + delayMs >= endAtMs) throw error;
      await clock.sleep(delayMs, run.stopped);
    }
  }
}
