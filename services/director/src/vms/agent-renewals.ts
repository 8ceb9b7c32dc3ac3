import { type BackoffLimits, backoffMs, type Logger, messageOf } from "@diskmesh/domain";
import type { AgentClient } from "@diskmesh/mbus";
import { allEnded, observe } from "@diskmesh/metrics";
import type { Clock } from "@diskmesh/service";
import { authoritiesNotUsed } from "../agents/agent-authorities.js";
import type { AgentCertificates } from "../agents/agent-certificates.js";
import { endOfKeys, isDue } from "../agents/agent-key.js";
import { BY_DIRECTOR } from "../audit/asker.js";
import type { AgentKey, Instance } from "../store/instance.js";
import { taskKey } from "../store/schema.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { hasEnded } from "../store/task.js";
import { directorMetrics } from "../tasks/metrics.js";
import type { Tasks } from "../tasks/tasks.js";

export interface AgentRenewalsOptions {
  readonly tablet: DirectorTablet;
  readonly certificates: AgentCertificates;
  readonly agents: Pick<AgentClient, "onHeard">;
  readonly tasks: Pick<Tasks, "start">;
  readonly checkIntervalMs: number;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Tried {
  readonly attempts: number;
  readonly nextAtMs: number;
  /**
   * The pin of the agent's first key at the last attempt. When the agent later has only one key, with another pin, the
   * renewal has succeeded.
   */
  readonly pin: string;
}

/** Delay between attempts with an agent that does not apply its new certificate. */
const BACKOFF: BackoffLimits = { minDelayMs: 60_000, maxDelayMs: 6 * 3_600_000 };
/** Maximum renewals in a task, because after a change of the authority every agent is due. */
const AT_ONCE = 500;
/**
 * Agents send a heartbeat every 30 s. An agent that was silent for this time is skipped, because it would not answer.
 */
const HEARD_WITHIN_MS = 90_000;
/** Operators are warned when less than this fraction of a certificate's lifetime is left. */
const LITTLE = 1 / 9;
const WARN_EVERY_MS = 3_600_000;

/**
 * Starts a task to renew due certificates of agents that send heartbeats, a task at a time. Deletes authorities that no
 * certificate refers to any more. Warns of certificates that are about to expire.
 */
export class AgentRenewals {
  readonly #options: AgentRenewalsOptions;
  readonly #heardAtMs = new Map<string, number>();
  readonly #tried = new Map<string, Tried>();
  readonly #closed = new AbortController();
  #end = () => {};
  #taskId = 0;
  #warnAtMs = 0;
  #seen: { readonly ending: number; readonly firstEndAtMs: number } | undefined;
  #running = Promise.resolve();

  constructor(options: AgentRenewalsOptions) {
    this.#options = options;
  }

  /** Starts the renewals. Call only after the dispatchers refuse calls of former directors. */
  start(): void {
    const { agents, clock } = this.#options;
    this.#end = allEnded([
      agents.onHeard((agentId) => this.#heardAtMs.set(agentId, clock.monotonicMs())),
      observe(directorMetrics.agentCertificatesEnding, (say) => {
        if (this.#seen !== undefined) say(this.#seen.ending);
      }),
      observe(directorMetrics.agentCertificatesLeft, (say) => {
        const leftMs = (this.#seen?.firstEndAtMs ?? Number.POSITIVE_INFINITY) - clock.nowMs();
        if (Number.isFinite(leftMs)) say(leftMs / 1_000);
      }),
    ]);
    this.#running = this.#run();
  }

  async close(): Promise<void> {
    this.#end();
    this.#closed.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { clock, checkIntervalMs, log } = this.#options;
    const { signal } = this.#closed;
    while (!signal.aborted) {
      try {
        await this.#look();
      } catch (error) {
        log.warn({ error: messageOf(error) }, "agent certificate check failed, retrying");
      }
      await clock.sleep(checkIntervalMs, signal).catch(() => {});
    }
  }

  async #look(): Promise<void> {
    const { tablet, certificates, clock } = this.#options;
    const { trust } = certificates;
    const nowMs = clock.nowMs();
    const found = await tablet.read((tables) => {
      const instances = [...tables.instances.entries()].filter(({ agentKeys }) => agentKeys !== undefined);
      const last = tables.tasks.get(taskKey(this.#taskId));
      const unused = authoritiesNotUsed(tables, trust.authority).length > 0;
      return { instances, isBusy: last !== undefined && !hasEnded(last), unused };
    });
    if (found.unused)
      await tablet.transact((tx) => {
        for (const { id } of authoritiesNotUsed(tx, trust.authority)) tx.agentAuthorities.delete(id);
      });
    const known = new Set(found.instances.map(({ agentId }) => agentId));
    for (const agentId of this.#heardAtMs.keys()) if (!known.has(agentId)) this.#heardAtMs.delete(agentId);
    const little = found.instances.filter(({ agentKeys = [] }) => hasLittleLeft(agentKeys, nowMs));
    const ends = found.instances.map(({ agentKeys = [] }) => endOfKeys(agentKeys) ?? Number.POSITIVE_INFINITY);
    const firstEndAtMs = ends.reduce((first, each) => Math.min(first, each), Number.POSITIVE_INFINITY);
    this.#seen = { ending: little.length, firstEndAtMs };
    this.#warn(little.map(({ agentId, vmToken }) => agentId || vmToken));
    const due = found.instances.filter(
      ({ agentKeys = [], vmState, ignore }) => vmState === "running" && !ignore && isDue(agentKeys, trust, nowMs),
    );
    // Resets the attempts of renewed agents.
    const dueKeys = new Map(due.map(({ agentId, agentKeys }) => [agentId, agentKeys ?? []]));
    for (const [agentId, { pin }] of this.#tried) {
      const [first, ...others] = dueKeys.get(agentId) ?? [];
      // The trust may change during a renewal. The agent is then due again at once although no attempt failed.
      if (first === undefined || (others.length === 0 && first.pin !== pin)) this.#tried.delete(agentId);
    }
    if (!found.isBusy) await this.#renew(due.filter(({ agentId }) => this.#isReady(agentId)).slice(0, AT_ONCE));
  }

  #isReady(agentId: string): boolean {
    const nowMs = this.#options.clock.monotonicMs();
    const heardAtMs = this.#heardAtMs.get(agentId);
    return (
      heardAtMs !== undefined &&
      nowMs - heardAtMs <= HEARD_WITHIN_MS &&
      nowMs >= (this.#tried.get(agentId)?.nextAtMs ?? 0)
    );
  }

  async #renew(due: readonly Pick<Instance, "instanceId" | "agentId" | "agentKeys">[]): Promise<void> {
    const { tasks, clock } = this.#options;
    if (due.length === 0) return;
    const task = await tasks.start(BY_DIRECTOR, {
      job: { type: "renew_agent_certificates", instanceIds: due.map(({ instanceId }) => instanceId) },
      queue: "normal",
      description: `renew the certificates of ${due.length} agent${due.length === 1 ? "" : "s"}`,
      deployment: "",
    });
    this.#taskId = task.taskId;
    for (const { agentId, agentKeys } of due) {
      const attempts = (this.#tried.get(agentId)?.attempts ?? -1) + 1;
      const nextAtMs = clock.monotonicMs() + backoffMs(attempts, BACKOFF);
      this.#tried.set(agentId, { attempts, nextAtMs, pin: agentKeys?.[0]?.pin ?? "" });
    }
  }

  #warn(agentIds: readonly string[]): void {
    const { clock, log } = this.#options;
    if (agentIds.length === 0 && this.#warnAtMs > 0) {
      this.#warnAtMs = Number.NEGATIVE_INFINITY;
      log.info({ alertEnded: "agent_certificates" }, "agent certificates are renewed");
    }
    if (agentIds.length === 0 || clock.monotonicMs() < this.#warnAtMs) return;
    this.#warnAtMs = clock.monotonicMs() + WARN_EVERY_MS;
    log.warn(
      { alert: "agent_certificates", count: agentIds.length, agentIds: agentIds.slice(0, 10) },
      "agent certificates expired or close to expiry; see `diskmesh agents`",
    );
  }
}

function hasLittleLeft(keys: readonly AgentKey[], nowMs: number): boolean {
  const endsAtMs = endOfKeys(keys);
  if (endsAtMs === undefined) return true;
  return endsAtMs - nowMs < (endsAtMs - Math.min(...keys.map(({ issuedAtMs }) => issuedAtMs))) * LITTLE;
}
