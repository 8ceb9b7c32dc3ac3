import { randomUUID } from "node:crypto";
import { type Cpi, type CpiCall, isDenial } from "@diskmesh/cpi";
import { DomainError, messageOf } from "@diskmesh/domain";
import type { TrialObjects } from "./objects.js";
import { Differs, LeftOut, type Made, type Scene, type Step } from "./step.js";
import { STEPS } from "./steps.js";

export interface Finding {
  readonly title: string;
  readonly outcome: "ok" | "differs" | "lacks" | "left out" | "FAILED";
  /** The CPI's answer, or why the step has not succeeded. */
  readonly detail: string;
  readonly durationMs: number;
}

export interface TrialOptions {
  readonly cpi: Cpi;
  readonly objects: TrialObjects;
  /** Aborted when the user stops the trial. What was made is deleted all the same. */
  readonly signal: AbortSignal;
  /** Receives what the CPI logs, with secrets redacted. */
  readonly onLogLine: (line: string) => void;
  readonly onFinding: (finding: Finding) => void;
}

/**
 * Tries BOSH's contract with a CPI: one VM without an agent, and one disk. Returns the findings. Deletes what failed
 * steps leave behind, which is a finding, too.
 */
export async function tryCpi(options: TrialOptions): Promise<readonly Finding[]> {
  const { cpi, objects, signal, onFinding } = options;
  const made: Made = {};
  const findings: Finding[] = [];
  const note = async (step: Step, until: AbortSignal): Promise<void> => {
    const finding = await tried(step, { cpi, objects, made, call: () => callOf(options, until) });
    findings.push(finding);
    onFinding(finding);
  };
  for (const step of STEPS) {
    // Without its version, a CPI cannot be called at all.
    if (!signal.aborted && findings[0]?.outcome !== "FAILED") await note(step, signal);
  }
  for (const step of deletions(made, objects)) await note(step, new AbortController().signal);
  return findings;
}

function callOf({ objects, onLogLine }: TrialOptions, signal: AbortSignal): CpiCall {
  return {
    signal,
    deadlineAtMs: Date.now() + objects.call_timeout_ms,
    requestId: `try-${randomUUID()}`,
    directorId: "diskmesh-cpi-try",
    stemcellApiVersion: objects.stemcell.api_version,
    preferredApiVersion: 0,
    onLogLine,
  };
}

async function tried({ title, isOptional = false, run }: Step, scene: Scene): Promise<Finding> {
  const begunMs = performance.now();
  const ended = (outcome: Finding["outcome"], detail: string): Finding => {
    return { title, outcome, detail, durationMs: performance.now() - begunMs };
  };
  try {
    const shown = await run(scene);
    return shown instanceof Differs ? ended("differs", shown.how) : ended("ok", String(shown ?? ""));
  } catch (error) {
    const why = messageOf(error);
    if (error instanceof LeftOut) return ended("left out", why);
    if (!(error instanceof DomainError)) return ended("FAILED", why);
    if (isOptional && ["NOT_IMPLEMENTED", "NOT_SUPPORTED"].includes(error.reason)) return ended("lacks", why);
    return ended("FAILED", error.outcome === "unknown" ? `${why}; what the CPI has done is not known` : why);
  }
}

/** Returns steps that delete what is left, the latest first. */
function deletions({ stemcellCid, vmCid, diskCid, snapshotCid }: Made, objects: TrialObjects): Step[] {
  const steps: Step[] = [];
  const add = (
    kind: Parameters<typeof isDenial>[0] | "stemcell",
    cid: string | undefined,
    run: (scene: Scene, cid: string) => Promise<void>,
  ): void => {
    if (cid === undefined) return;
    const ignoreGone = (error: unknown): string => {
      if (kind === "stemcell" || !isDenial(kind, error)) throw error;
      return "it was gone";
    };
    steps.push({ title: `${kind} ${cid} was left, and is deleted`, run: (scene) => run(scene, cid).catch(ignoreGone) });
  };
  add("snapshot", snapshotCid, ({ cpi, call }, cid) => cpi.deleteSnapshot(cid, call()));
  add("disk", diskCid, async ({ cpi, call }, cid) => {
    // After a failure it is not known whether the disk is attached. The deletion tells whether the disk is gone.
    if (vmCid !== undefined) await cpi.detachDisk(vmCid, cid, call()).catch(() => undefined);
    await cpi.deleteDisk(cid, call());
  });
  add("vm", vmCid, ({ cpi, call }, cid) => cpi.deleteVm(cid, call()));
  const own = objects.stemcell.cid === undefined ? stemcellCid : undefined;
  add("stemcell", own, ({ cpi, call }, cid) => cpi.deleteStemcell(cid, call()));
  return steps;
}
