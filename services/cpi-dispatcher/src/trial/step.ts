import type { Cpi, CpiCall } from "@diskmesh/cpi";
import { DomainError, messageOf } from "@diskmesh/domain";
import type { TrialObjects } from "./objects.js";

/** The objects that a trial has made and not deleted yet; undefined for each that does not exist. */
export interface Made {
  stemcellCid?: string | undefined;
  vmCid?: string | undefined;
  diskCid?: string | undefined;
  snapshotCid?: string | undefined;
  /** The attachment of the disk to the VM. */
  attachment?: { readonly vmCid: string; readonly diskCid: string; readonly hint: unknown } | undefined;
}

/** The inputs of a step. */
export interface Scene {
  readonly cpi: Cpi;
  readonly objects: TrialObjects;
  readonly made: Made;
  /** Returns the context of another call. */
  readonly call: () => CpiCall;
}

/** A part of the contract. */
export interface Step {
  readonly title: string;
  /** True when a CPI may lack the step's methods. */
  readonly isOptional?: boolean;
  /** Throws when the CPI breaks the contract. May return a Differs, or what a user wants to see of the answer. */
  readonly run: (scene: Scene) => Promise<unknown>;
}

/** Thrown by a step that is not tried, with the reason. */
export class LeftOut extends Error {}

/** Returns an object that an earlier step made. Throws LeftOut when there is none. */
export function needed<Value>(what: string, value: Value | undefined): Value {
  if (value === undefined) throw new LeftOut(`there is no ${what}`);
  return value;
}

export function requireThat(isTrue: boolean, why: string): void {
  if (!isTrue) throw new Error(why);
}

/** Result of a step whose CPI does otherwise than BOSH documents, as CPIs in use do, without harm to diskmesh. */
export class Differs {
  constructor(readonly how: string) {}
}

/**
 * Throws unless the call fails with this reason, whose name in BOSH is `type`. Returns how the CPI differs when it
 * does what `harmless` says instead.
 */
export async function requireFailure(
  calling: Promise<unknown>,
  reason: string,
  type: string,
  harmless: "succeeds" | "fails otherwise",
): Promise<Differs | undefined> {
  const wanted = `it must fail with Bosh::Clouds::${type}`;
  try {
    await calling;
  } catch (error) {
    if (error instanceof DomainError && error.reason === reason) return undefined;
    const text = `${wanted}, and failed otherwise: ${messageOf(error)}`;
    if (harmless === "fails otherwise" && isRefusal(error)) return new Differs(text);
    throw new Error(text, { cause: error });
  }
  if (harmless === "succeeds") return new Differs(`${wanted}, and succeeded`);
  throw new Error(`${wanted}, and succeeded`);
}

/** Returns true for an error of the CPI after which it is known what the CPI has done. */
export function isRefusal(error: unknown): boolean {
  return error instanceof DomainError && error.outcome !== "unknown";
}
