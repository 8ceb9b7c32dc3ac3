import { type BackoffLimits, backoffMs, type Logger, messageOf } from "@diskmesh/domain";
import type { AgentClient } from "@diskmesh/mbus";
import type { Clock } from "@diskmesh/service";
import type { AgentHealths } from "../agents/agent-healths.js";
import { BY_DIRECTOR } from "../audit/asker.js";
import type { ResurrectionConfigs } from "../configs/resurrection-configs.js";
import { formatInstance, type Instance } from "../store/instance.js";
import { taskKey } from "../store/schema.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { hasEnded, type Resurrected } from "../store/task.js";
import type { Tasks } from "../tasks/tasks.js";
import {
  decideResurrections,
  isBeingMadeAnew,
  type ResurrectionLimits,
  type ResurrectionVerdict,
  watchedVms,
} from "./resurrection.js";

export interface ResurrectorOptions {
  readonly limits: ResurrectionLimits & { readonly checkIntervalMs: number };
  readonly resurrectionConfigs: Pick<ResurrectionConfigs, "wishes">;
  readonly tablet: DirectorTablet;
  readonly agents: Pick<AgentClient, "isConnected">;
  readonly agentHealths: Pick<AgentHealths, "shown">;
  readonly tasks: Pick<Tasks, "start">;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A VM that a task failed to recreate. */
interface Tried {
  readonly vmCid: string;
  readonly wasDead: boolean;
  readonly attempts: number;
  readonly nextAtMs: number;
}

type ToMakeAnew = Extract<ResurrectionVerdict, { readonly do: "make_anew" }>;

const BACKOFF: BackoffLimits = { minDelayMs: 30_000, maxDelayMs: 1_800_000 };

/** Starts a task for each deployment with VMs that need a recreation because of silent agents. */
export class Resurrector {
  readonly #options: ResurrectorOptions;
  readonly #closed = new AbortController();
  readonly #tried = new Map<string, Tried>();
  /** The latest task by deployment. */
  readonly #tasks = new Map<string, number>();
  /** The last logged reason for not recreating, by instance. */
  #held = new Map<string, string>();
  #working: Promise<void> = Promise.resolve();

  constructor(options: ResurrectorOptions) {
    this.#options = options;
  }

  /** Starts the checks. Call only after the dispatchers refuse former directors and heartbeats arrive. */
  start(): void {
    this.#working = this.#run();
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await this.#working;
  }

  async #run(): Promise<void> {
    const { clock, limits, log } = this.#options;
    const { signal } = this.#closed;
    while (!signal.aborted) {
      await clock.sleep(limits.checkIntervalMs, signal).catch(() => {});
      if (signal.aborted) return;
      await this.#check().catch((error: unknown) =>
        log.warn({ error: messageOf(error) }, "resurrection check failed, retrying"),
      );
    }
  }

  async #check(): Promise<void> {
    const { tablet, agents, agentHealths, limits, resurrectionConfigs, clock } = this.#options;
    // Without NATS no heartbeats arrive, so silence proves nothing about a VM.
    if (!agents.isConnected) return;
    const silentMsOf = (agentId: string) => agentHealths.shown(agentId).silentMs;
    const verdicts = await tablet.read((tables) => {
      const watched = watchedVms(tables, silentMsOf, resurrectionConfigs.wishes(tables), clock.nowMs());
      return decideResurrections(watched, limits).map((verdict) => ({
        ...verdict,
        isBegun: isBeingMadeAnew(tables, verdict.instance),
      }));
    });
    this.#logHeld(
      new Map(verdicts.flatMap((each) => (each.do === "hold" ? [[nameOf(each.instance), each.because]] : []))),
    );
    const silent = new Set(verdicts.map(({ instance }) => instance.instanceId));
    for (const instanceId of this.#tried.keys()) if (!silent.has(instanceId)) this.#tried.delete(instanceId);
    const due = verdicts.filter((each) => each.do === "make_anew").filter((each) => !each.isBegun && this.#isDue(each));
    for (const deployment of new Set(due.map(({ instance }) => instance.deployment)))
      await this.#begin(
        deployment,
        due.filter(({ instance }) => instance.deployment === deployment),
      );
  }

  #isDue({ instance: { instanceId, vmCid }, isDead }: ToMakeAnew): boolean {
    const tried = this.#tried.get(instanceId);
    if (tried?.vmCid !== vmCid) return true;
    // A dead VM is recreated whatever the CPI reports, so the earlier attempt does not delay it.
    if (isDead && !tried.wasDead) return true;
    return this.#options.clock.monotonicMs() >= tried.nextAtMs;
  }

  async #begin(deployment: string, due: readonly ToMakeAnew[]): Promise<void> {
    const { tablet, tasks, clock } = this.#options;
    const lastId = this.#tasks.get(deployment) ?? 0;
    const last = await tablet.read((tables) => tables.tasks.get(taskKey(lastId)));
    if (last !== undefined && !hasEnded(last)) return;
    const vms = due.map(({ instance: { instanceId, vmCid } }): Resurrected => ({ instanceId, vmCid }));
    const names = due.map(({ instance }) => formatInstance(instance)).join(", ");
    const { taskId } = await tasks.start(BY_DIRECTOR, {
      job: { type: "resurrect_instances", deployment, vms },
      queue: "normal",
      description: `resurrect ${names.slice(0, 200)}`,
      deployment,
    });
    this.#tasks.set(deployment, taskId);
    for (const { instance, isDead } of due) {
      const { instanceId, vmCid } = instance;
      const before = this.#tried.get(instanceId);
      const attempts = before?.vmCid === vmCid && before.wasDead === isDead ? before.attempts + 1 : 0;
      const nextAtMs = clock.monotonicMs() + backoffMs(attempts, BACKOFF);
      this.#tried.set(instanceId, { vmCid, wasDead: isDead, attempts, nextAtMs });
    }
  }

  #logHeld(held: Map<string, string>): void {
    for (const name of this.#held.keys())
      if (!held.has(name))
        this.#options.log.info({ alertEnded: "not_resurrected", alertOf: name }, "VM is no longer held back");
    for (const [name, because] of held)
      if (this.#held.get(name) !== because)
        this.#options.log.error(
          { alert: "not_resurrected", alertOf: name, because },
          `VM of ${name}, whose agent is silent, not recreated: ${because}`,
        );
    this.#held = held;
  }
}

const nameOf = (instance: Instance): string => `${instance.deployment} ${formatInstance(instance)}`;
