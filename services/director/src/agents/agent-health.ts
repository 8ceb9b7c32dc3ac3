import { isJsonObject, type JsonObject } from "@diskmesh/domain";
import type { AgentHealth } from "../store/agent-health.js";
import type { JsonObject as Json } from "../store/json.js";

/** The state of a silent agent in lists, in BOSH's words. */
export const UNRESPONSIVE = "unresponsive agent";

const MAX_VITALS_LENGTH = 4_096;
const MAX_NAME_LENGTH = 255;
/** Clocks are put right, messages take their time, and uptime is told in seconds. */
const BOOT_SLACK_MS = 10_000;
const BEAT_SLACK_MS = 3_000;
const BEAT_SLACK = 0.2;

export function healthOf(agentId: string, heartbeat: JsonObject, nowMs: number): AgentHealth {
  const vitals = isJsonObject(heartbeat.vitals) ? (heartbeat.vitals as Json) : {};
  const uptimeMs = uptimeMsOf(vitals);
  return {
    agentId,
    heardAtMs: nowMs,
    bootedAtMs: uptimeMs === undefined ? 0 : Math.max(0, nowMs - uptimeMs),
    jobState: nameIn(heartbeat.job_state),
    deployment: nameIn(heartbeat.deployment),
    vitals: JSON.stringify(vitals).length <= MAX_VITALS_LENGTH ? vitals : {},
  };
}

function uptimeMsOf({ uptime }: Json): number | undefined {
  const seconds = isJsonObject(uptime) ? Number(uptime.secs) : Number.NaN;
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1_000 : undefined;
}

function nameIn(value: unknown): string {
  return typeof value === "string" ? value.slice(0, MAX_NAME_LENGTH) : "";
}

/** When an agent beats, as far as that was heard here. */
export interface Rhythm {
  /** Between the last two beats. */
  readonly gapMs: number | undefined;
  /** The beat interval that two consecutive gaps agreed on. */
  readonly intervalMs: number | undefined;
}

export const NO_RHYTHM: Rhythm = { gapMs: undefined, intervalMs: undefined };

export function nextRhythm({ gapMs: last, intervalMs }: Rhythm, gapMs: number): Rhythm {
  return { gapMs, intervalMs: last !== undefined && agree(last, gapMs) ? gapMs : intervalMs };
}

function agree(oneMs: number, otherMs: number): boolean {
  return Math.abs(oneMs - otherMs) <= Math.max(BEAT_SLACK_MS, BEAT_SLACK * oneMs);
}

/**
 * Returns true when an agent may have been restarted between two of its beats, and has no links then: its VM was
 * started later, or the beat came at an unexpected time, since a restarted agent begins its beats anew.
 */
export function mayHaveRestarted(
  before: AgentHealth,
  now: AgentHealth,
  { intervalMs }: Rhythm,
  gapMs: number | undefined,
): boolean {
  if (before.bootedAtMs > 0 && now.bootedAtMs > before.bootedAtMs + BOOT_SLACK_MS) return true;
  // Beats that came while nobody listened are not known.
  return intervalMs !== undefined && gapMs !== undefined && !agree(intervalMs, gapMs);
}
