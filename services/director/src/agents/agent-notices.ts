import type { JsonObject, Logger } from "@diskmesh/domain";
import type { AgentClient, Notice } from "@diskmesh/mbus";
import type { Clock } from "@diskmesh/service";
import type { Events } from "../audit/events.js";
import { formatInstance } from "../store/instance.js";
import type { DirectorTablet } from "../store/stored-schema.js";

export interface AgentNoticesOptions {
  readonly tablet: DirectorTablet;
  readonly agents: Pick<AgentClient, "onNotice">;
  readonly events: Pick<Events, "record">;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Told {
  sinceMs: number;
  count: number;
}

/** Maximum number of events per agent and window, so that one agent does not displace the events of other agents. */
const NOTICES_PER_WINDOW = 10;
const WINDOW_MS = 60_000;
const MAX_TEXT_LENGTH = 500;
const ALERT_FIELDS = ["id", "severity", "title", "summary"] as const;

/** Records alerts and shutdown notices of VM agents as audit events. */
export class AgentNotices {
  readonly #options: AgentNoticesOptions;
  readonly #told = new Map<string, Told>();
  #end = () => {};

  constructor(options: AgentNoticesOptions) {
    this.#options = options;
  }

  start(): void {
    this.#end = this.#options.agents.onNotice((agentId, notice) => void this.#onNotice(agentId, notice));
  }

  close(): void {
    this.#end();
  }

  async #onNotice(agentId: string, { kind, said }: Notice): Promise<void> {
    const { tablet, events, log } = this.#options;
    if (!this.#mayTell(agentId)) return;
    const instance = await tablet
      .read((tables) => [...tables.instances.by("byAgent", agentId)][0])
      .catch(() => undefined);
    // The VM is unknown or already deleted.
    if (instance === undefined) return;
    log.info({ agentId, kind }, `agent ${kind} message received`);
    const { deployment, vmCid } = instance;
    const origin = {
      user: `agent/${agentId}`,
      deployment,
      instance: formatInstance(instance),
      context: contextOf(said),
    };
    await events.record({ action: kind, objectType: "vm", objectName: vmCid }, origin);
  }

  #mayTell(agentId: string): boolean {
    const nowMs = this.#options.clock.monotonicMs();
    const told = this.#told.get(agentId);
    if (told === undefined || nowMs - told.sinceMs > WINDOW_MS) {
      for (const [other, { sinceMs }] of this.#told) if (nowMs - sinceMs > WINDOW_MS) this.#told.delete(other);
      this.#told.set(agentId, { sinceMs: nowMs, count: 1 });
      return true;
    }
    told.count++;
    if (told.count === NOTICES_PER_WINDOW + 1)
      this.#options.log.warn({ agentId, maxPerMinute: NOTICES_PER_WINDOW }, "agent message rate limit exceeded");
    return told.count <= NOTICES_PER_WINDOW;
  }
}

function contextOf(said: JsonObject): Record<string, string> {
  const texts = ALERT_FIELDS.map((field) => [field, said[field]] as const);
  return Object.fromEntries(
    texts
      .filter(([, value]) => typeof value === "string" || typeof value === "number")
      .map(([field, value]) => [field, String(value).slice(0, MAX_TEXT_LENGTH)]),
  );
}
