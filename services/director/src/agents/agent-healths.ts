import { type JsonObject, type Logger, messageOf } from "@diskmesh/domain";
import type { AgentClient } from "@diskmesh/mbus";
import type { Clock } from "@diskmesh/service";
import type { AgentHealth } from "../store/agent-health.js";
import type { Instance } from "../store/instance.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { healthOf, mayHaveRestarted, NO_RHYTHM, nextRhythm, type Rhythm } from "./agent-health.js";

/** Tells agents that may have been restarted of their disks again. */
interface Back {
  start(): void;
  close(): Promise<void>;
  /** The agent may have been restarted. */
  note(agentId: string): void;
  /** The agent has not been told yet. */
  has(agentId: string): boolean;
  forget(agentId: string): void;
}

export interface AgentHealthsOptions {
  readonly tablet: DirectorTablet;
  readonly agents: Pick<AgentClient, "onHeartbeat" | "onConnected" | "isConnected">;
  readonly backOf: (isResponsive: (agentId: string) => boolean) => Back;
  readonly unresponsiveAfterMs: number;
  readonly healthRecordIntervalMs: number;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The beats received from one agent. */
interface Heard {
  /** Undefined until it says something; as another director recorded it, before. */
  health: AgentHealth | undefined;
  /** On the monotonic clock; undefined until this director heard it. */
  atMs: number | undefined;
  rhythm: Rhythm;
  isRecorded: boolean;
}

/** An agent's health in a list. */
export interface ShownHealth {
  /** The latest report; undefined when the agent has not been heard. */
  readonly health: AgentHealth | undefined;
  /** Time without a beat, in ms, counted while this director listened. */
  readonly silentMs: number;
  readonly isResponsive: boolean;
}

const RECORDS_PER_COMMIT = 500;

/**
 * Hears the heartbeats of all agents of VMs. What they said last is in memory, and from time to time in the tablet, so
 * that a beat costs no commit. An agent that may have been restarted is told of its disks again.
 */
export class AgentHealths {
  readonly #options: AgentHealthsOptions;
  readonly #heard = new Map<string, Heard>();
  readonly #agentOf = new Map<string, string>();
  readonly #back: Back;
  readonly #closed = new AbortController();
  #ends: (() => void)[] = [];
  #listeningSinceMs: number;
  #working: Promise<unknown> = Promise.resolve();

  constructor(options: AgentHealthsOptions) {
    this.#options = options;
    this.#back = options.backOf((agentId) => this.shown(agentId).isResponsive);
    this.#listeningSinceMs = options.clock.monotonicMs();
  }

  async start(): Promise<void> {
    const { tablet, agents, clock } = this.#options;
    const unwatch = tablet.watch((changes) => {
      for (const { table, key, document } of changes)
        if (table === "instances") this.#noteInstance(key, document as Instance | null);
    });
    this.#ends.push(unwatch);
    await tablet.read((tables) => {
      for (const instance of tables.instances.entries()) this.#noteInstance(instance.instanceId, instance);
      for (const health of tables.agentHealth.entries()) {
        const heard = this.#heard.get(health.agentId);
        if (heard !== undefined) heard.health = health;
      }
    });
    this.#listeningSinceMs = clock.monotonicMs();
    // Beats sent while NATS was away are lost.
    this.#ends.push(
      agents.onConnected(() => {
        this.#listeningSinceMs = clock.monotonicMs();
      }),
    );
    this.#ends.push(agents.onHeartbeat((agentId, heartbeat) => this.#onHeartbeat(agentId, heartbeat)));
    this.#working = this.#recordNowAndThen();
    this.#back.start();
  }

  async close(): Promise<void> {
    for (const end of this.#ends.splice(0)) end();
    this.#closed.abort();
    await Promise.all([this.#working, this.#back.close()]);
  }

  shown(agentId: string): ShownHealth {
    const { health, atMs = this.#listeningSinceMs } = this.#heard.get(agentId) ?? { health: undefined };
    const silentMs = this.#options.clock.monotonicMs() - Math.max(atMs, this.#listeningSinceMs);
    return { health, silentMs, isResponsive: silentMs <= this.#options.unresponsiveAfterMs };
  }

  #noteInstance(instanceId: string, instance: Instance | null): void {
    const before = this.#agentOf.get(instanceId);
    const now = instance?.agentId ?? "";
    if (before === now) return;
    if (before !== undefined) {
      this.#heard.delete(before);
      this.#back.forget(before);
    }
    if (now === "") this.#agentOf.delete(instanceId);
    else {
      this.#agentOf.set(instanceId, now);
      const atMs = this.#options.clock.monotonicMs();
      // It has answered: from then on it is silent, if it is.
      this.#heard.set(now, { health: undefined, atMs, rhythm: NO_RHYTHM, isRecorded: true });
    }
  }

  #onHeartbeat(agentId: string, heartbeat: JsonObject): void {
    const heard = this.#heard.get(agentId);
    if (heard === undefined) return;
    const { clock } = this.#options;
    const atMs = clock.monotonicMs();
    const now = healthOf(agentId, heartbeat, clock.nowMs());
    const { health: before, rhythm } = heard;
    const gapMs = before === undefined || heard.atMs === undefined ? undefined : atMs - heard.atMs;
    if (before !== undefined && mayHaveRestarted(before, now, rhythm, gapMs)) this.#back.note(agentId);
    if (gapMs !== undefined) heard.rhythm = nextRhythm(rhythm, gapMs);
    Object.assign(heard, { health: now, atMs, isRecorded: false });
  }

  async #recordNowAndThen(): Promise<void> {
    const { clock, healthRecordIntervalMs, log } = this.#options;
    const { signal } = this.#closed;
    while (!signal.aborted) {
      await clock.sleep(healthRecordIntervalMs, signal).catch(() => {});
      if (signal.aborted) return;
      await this.#record().catch((error: unknown) =>
        log.warn({ error: messageOf(error) }, "cannot record what agents say of themselves; tried again later"),
      );
    }
  }

  async #record(): Promise<void> {
    const { tablet } = this.#options;
    // The next director must see the gap of an agent that is to get its disks again.
    const changed = [...this.#heard]
      .filter(([agentId, { isRecorded, health }]) => !isRecorded && health !== undefined && !this.#back.has(agentId))
      .map(([, heard]) => heard);
    for (let first = 0; first < changed.length; first += RECORDS_PER_COMMIT) {
      const part = changed.slice(first, first + RECORDS_PER_COMMIT);
      for (const heard of part) heard.isRecorded = true;
      await tablet.transact((tx) => {
        for (const { health } of part) if (health !== undefined) tx.agentHealth.put(health);
      });
    }
    const gone = await tablet.read((tables) =>
      [...tables.agentHealth.entries()].filter(({ agentId }) => !this.#heard.has(agentId)),
    );
    if (gone.length === 0) return;
    await tablet.transact((tx) => {
      for (const { agentId } of gone) tx.agentHealth.delete(agentId);
    });
  }
}
