import { isJsonObject, type JsonObject } from "@diskmesh/domain";
import type { AgentHealth } from "../store/agent-health.js";
import type { JsonObject as Json } from "../store/json.js";

/** BOSH's name for the state of a silent agent in lists. */
export const UNRESPONSIVE = "unresponsive agent";

const MAX_VITALS_LENGTH = 4_096;
const MAX_NAME_LENGTH = 255;
/**
 * Tolerance between the boot times that two heartbeats imply. Covers clock corrections, message delay, and the
 * one-second resolution of uptime.
 */
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

/** The heartbeat rhythm of an agent, as this director observed it. */
export interface Rhythm {
  /** Time between the last two heartbeats. */
  readonly gapMs: number | undefined;
  /** The heartbeat interval on which two consecutive gaps agreed. */
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
 * Returns true when an agent may have restarted between two heartbeats and so may have lost its disk links. Indicators:
 * the VM booted later than before, or the heartbeat is off the interval, because a restarted agent starts a new
 * interval.
 */
export function mayHaveRestarted(
  before: AgentHealth,
  now: AgentHealth,
  { intervalMs }: Rhythm,
  gapMs: number | undefined,
): boolean {
  if (before.bootedAtMs > 0 && now.bootedAtMs > before.bootedAtMs + BOOT_SLACK_MS) return true;
  // Without a known interval a gap proves nothing, because heartbeats may have been missed while no director listened.
  return intervalMs !== undefined && gapMs !== undefined && !agree(intervalMs, gapMs);
}
