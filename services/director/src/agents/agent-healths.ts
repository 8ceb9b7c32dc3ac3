import { type JsonObject, type Logger, messageOf } from "@diskmesh/domain";
import type { AgentClient } from "@diskmesh/mbus";
import type { Clock } from "@diskmesh/service";
import type { AgentHealth } from "../store/agent-health.js";
import type { Instance } from "../store/instance.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { healthOf, mayHaveRestarted, NO_RHYTHM, nextRhythm, type Rhythm } from "./agent-health.js";

/** Sends the attached disks again to agents that may have restarted. */
interface Back {
  start(): void;
  close(): Promise<void>;
  /** Marks the agent as possibly restarted. */
  note(agentId: string): void;
  /** Returns true while the agent has not received its disks again. */
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

/** The heartbeats received from one agent. */
interface Heard {
  /** The latest report. Before the first heartbeat: the report that the previous leader recorded, or undefined. */
  health: AgentHealth | undefined;
  /** Monotonic time of the last sign of life that this director received from the agent; undefined before the first. */
  atMs: number | undefined;
  rhythm: Rhythm;
  isRecorded: boolean;
}

export interface ShownHealth {
  /** The latest report; undefined before the first heartbeat. */
  readonly health: AgentHealth | undefined;
  /** Time without a heartbeat, in ms, counted only while this director listened. */
  readonly silentMs: number;
  readonly isResponsive: boolean;
}

const RECORDS_PER_COMMIT = 500;

/**
 * Receives the heartbeats of all VM agents. Keeps the latest report in memory and writes it to the tablet at an
 * interval, so that a heartbeat costs no commit. Sends the attached disks again to agents that may have restarted.
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
    // Heartbeats sent while NATS was disconnected are lost, so silence counts from the reconnect.
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
      // The agent has just answered a call, so its silence counts from now.
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
        log.warn({ error: messageOf(error) }, "agent health recording failed, retrying"),
      );
    }
  }

  async #record(): Promise<void> {
    const { tablet } = this.#options;
    // Agents that still wait for their disks keep the report recorded before their restart, so that the next director
    // detects the restart, too.
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
