import { type BackoffLimits, backoffMs, DomainError, TimeoutError, UnavailableError } from "@diskmesh/domain";
import { type AgentClient, AgentError } from "@diskmesh/mbus";
import type { Clock } from "@diskmesh/service";
import type { DirectorTablet } from "../store/stored-schema.js";
import type { TaskRun } from "../tasks/task-run.js";

export interface AgentCallsOptions {
  readonly client: AgentClient;
  readonly tablet: Pick<DirectorTablet, "checkMayAct">;
  readonly requestTimeoutMs: number;
  /** How long an agent has been silent. */
  readonly silentMsOf: (agentId: string) => number;
  readonly clock: Clock;
  /** In [0, 1), for jitter. */
  readonly random: () => number;
}

const BACKOFF: BackoffLimits = { minDelayMs: 100, maxDelayMs: 2_000 };
const PING_TIMEOUT_MS = 1_000;
/** Time for an act on a disk before its agent is asked again. It is mostly a link, a mount or a file, done sooner than that. */
const ANSWER_WITHIN_MS = 50;

/** Fields of update_settings: stock agents take every field for what is to be from now on. */
export const NO_SETTINGS = { trusted_certs: "", disk_associations: [] } as const;

/** Calls of agents by jobs. */
export class AgentCalls {
  readonly #options: AgentCallsOptions;
  /** Attachments whose add_dynamic_disk is known to have ended; of others an agent may have it queued still. */
  readonly endedAdds = new Set<string>();

  constructor(options: AgentCallsOptions) {
    this.#options = options;
  }

  get isConnected(): boolean {
    return this.#options.client.isConnected;
  }

  /** Returns how long an agent has been silent. */
  silentMsOf(agentId: string): number {
    return this.#options.silentMsOf(agentId);
  }

  /** Asks an agent once. */
  call(...args: Parameters<AgentClient["call"]>): ReturnType<AgentClient["call"]> {
    return this.#options.client.call(...args);
  }

  /**
   * Has an agent do something that may be done twice: when its answer is lost or it is away, it is asked again until
   * the time is over. Agents too old to know the method have nothing to do, unless that is an error.
   */
  async tell(
    run: TaskRun,
    agentId: string,
    method: string,
    args: readonly unknown[],
    timeoutMs: number,
    unknownMethodIs: "ignored" | "error" = "ignored",
  ): Promise<void> {
    await this.ask(run, agentId, method, args, { timeoutMs, unknownMethodIs });
  }

  /** The same, for what an agent answers: undefined when it does not know the method. */
  ask(
    run: TaskRun,
    agentId: string,
    method: string,
    args: readonly unknown[],
    { timeoutMs, unknownMethodIs = "ignored" }: { timeoutMs: number; unknownMethodIs?: "ignored" | "error" },
  ): Promise<unknown> {
    return this.#repeat(run, timeoutMs, (leftMs) =>
      this.call(agentId, method, args, {
        signal: run.stopped,
        // So that a lost answer leaves time to ask again.
        requestTimeoutMs: Math.min(this.#options.requestTimeoutMs, Math.max(1_000, timeoutMs / 3)),
        timeoutMs: leftMs,
        unknownMethodIs,
        answerWithinMs: ANSWER_WITHIN_MS,
      }),
    );
  }

  /** Waits until an agent answers, or throws TimeoutError. While it restarts it may answer with errors. */
  async awaitAnswer(run: TaskRun, agentId: string, timeoutMs: number): Promise<void> {
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
      // Then nothing is known of any agent.
      if (!this.isConnected)
        throw new UnavailableError(
          `agent ${agentId} could not be asked: NATS is away; see that nats-server runs`,
          details,
        );
      throw new TimeoutError(`agent ${agentId} did not answer within ${timeoutMs} ms: ${error.message}`, details);
    }
  }

  async #repeat<Answer>(
    run: TaskRun,
    timeoutMs: number,
    attempt: (leftMs: number) => Promise<Answer>,
    passes: (error: unknown) => boolean = () => false,
  ): Promise<Answer> {
    const { tablet, clock, random } = this.#options;
    const endAtMs = clock.monotonicMs() + timeoutMs;
    for (let attempts = 0; ; attempts++) {
      try {
        tablet.checkMayAct();
        return await attempt(Math.max(1, endAtMs - clock.monotonicMs()));
      } catch (error) {
        run.checkpoint();
        const delayMs = backoffMs(attempts, BACKOFF, random());
        const retryable = (error instanceof DomainError && error.retryable) || passes(error);
        if (!retryable || clock.monotonicMs() + delayMs >= endAtMs) throw error;
        await clock.sleep(delayMs, run.stopped);
      }
    }
  }
}
