import { type BackoffLimits, backoffMs, DomainError, TimeoutError, UnavailableError } from "@diskmesh/domain";
import { type AgentClient, AgentError } from "@diskmesh/mbus";
import type { Clock } from "@diskmesh/service";
import type { DirectorTablet } from "../store/stored-schema.js";
import type { TaskRun } from "../tasks/task-run.js";

export interface AgentCallsOptions {
  readonly client: AgentClient;
  readonly tablet: Pick<DirectorTablet, "checkMayAct">;
  readonly requestTimeoutMs: number;
  /** Returns the time since the agent's last heartbeat. */
  readonly silentMsOf: (agentId: string) => number;
  readonly clock: Clock;
  /** Returns a number in [0, 1), for jitter. */
}

const BACKOFF: BackoffLimits = { minDelayMs: 100, maxDelayMs: 2_000 };
const PING_TIMEOUT_MS = 1_000;
/**
 * Maximum time for an agent to answer a disk action directly; after that the agent answers with a task to poll. Most
 * actions are a link, a mount or a file and end sooner.
 */
const ANSWER_WITHIN_MS = 50;

/**
 * Empty values for the fields of update_settings that a call does not mean to set, because stock agents apply every
 * field of a request as the new setting.
 */
export const NO_SETTINGS = { trusted_certs: "", disk_associations: [] } as const;

interface AskOptions {
  readonly timeoutMs: number;
  /** Time after which an answer counts as lost, if that is expected of the method; by default the director's limit. */
  readonly requestTimeoutMs?: number;
  readonly unknownMethodIs?: "ignored" | "error";
}

/** The task on whose behalf an agent is called, or a part of it with an end of its own. */
export type Asker = Pick<TaskRun, "stopped" | "checkpoint">;

/** Calls to agents from task jobs. */
export class AgentCalls {
  readonly #options: AgentCallsOptions;
  /**
   * Attachments whose add_dynamic_disk call has ended. For all other attachments the agent may still have the call
   * queued.
   */
  readonly endedAdds = new Set<string>();

  constructor(options: AgentCallsOptions) {
    this.#options = options;
  }

  get isConnected(): boolean {
    return this.#options.client.isConnected;
  }

  silentMsOf(agentId: string): number {
    return this.#options.silentMsOf(agentId);
  }

  /** Sends one request to an agent, without retries. */
  call(...args: Parameters<AgentClient["call"]>): ReturnType<AgentClient["call"]> {
    return this.#options.client.call(...args);
  }

  /**
   * Calls an idempotent agent method and discards the answer. Repeats the call until the timeout when the answer is
   * lost or the agent is unreachable. By default ignores agents that do not know the method.
   */
  async notify(
    run: Asker,
    agentId: string,
    method: string,
    args: readonly unknown[],
    timeoutMs: number,
    unknownMethodIs: "ignored" | "error" = "ignored",
  ): Promise<void> {
    await this.ask(run, agentId, method, args, { timeoutMs, unknownMethodIs });
  }

  /**
   * Returns the answer to an idempotent call, repeated as in `notify`; undefined when the agent does not know the
   * method.
   */
  ask(
    run: Asker,
    agentId: string,
    method: string,
    args: readonly unknown[],
    { timeoutMs, requestTimeoutMs = this.#options.requestTimeoutMs, unknownMethodIs = "ignored" }: AskOptions,
  ): Promise<unknown> {
    return this.#repeat(run, timeoutMs, (leftMs) =>
      this.call(agentId, method, args, {
        signal: run.stopped,
        // A third of the timeout, so that a lost answer leaves time for another request.
        requestTimeoutMs: Math.min(requestTimeoutMs, Math.max(1_000, timeoutMs / 3)),
        timeoutMs: leftMs,
        unknownMethodIs,
        answerWithinMs: ANSWER_WITHIN_MS,
      }),
    );
  }

  /**
   * Waits until the agent answers a ping. Retries after agent errors because a restarting agent may answer with errors.
   * Throws TimeoutError when the time is over and UnavailableError while NATS is disconnected.
   */
  async awaitAnswer(run: Asker, agentId: string, timeoutMs: number): Promise<void> {
    try {
      await this.#repeat(
        run,
        timeoutMs,
        () => this.call(agentId, "ping", [], { signal: run.stopped, timeoutMs: PING_TIMEOUT_MS }),
        (error) => error instanceof AgentError,
      );
    } catch (error) {
      run.checkpoint();
      if (!(error instanceof DomainError)) throw error;
      const details = { cause: error, about: { agent_id: agentId } };
      // Without NATS the agent's state is unknown, so the error is not a timeout of the agent.
      if (!this.isConnected)
        throw new UnavailableError(
          `agent ${agentId} was not called: this director is not connected to NATS; check that nats-server runs`,
          details,
        );
      throw new TimeoutError(`agent ${agentId} did not answer within ${timeoutMs} ms: ${error.message}`, details);
    }
  }

  async #repeat<Answer>(
    run: Asker,
    timeoutMs: number,
    attempt: (leftMs: number) => Promise<Answer>,
    passes: (error: unknown) => boolean = () => false,
  ): Promise<Answer> {
    const { tablet, clock } = this.#options;
    const endAtMs = clock.monotonicMs() + timeoutMs;
    for (let attempts = 0; ; attempts++) {
      try {
        tablet.checkMayAct();
        return await attempt(Math.max(1, endAtMs - clock.monotonicMs()));
      } catch (error) {
        run.checkpoint();
        const delayMs = backoffMs(attempts, BACKOFF);
        const retryable = (error instanceof DomainError && error.retryable) || passes(error);
        if (!retryable || clock.monotonicMs() + delayMs >= endAtMs) throw error;
        await clock.sleep(delayMs, run.stopped);
      }
    }
  }
}
