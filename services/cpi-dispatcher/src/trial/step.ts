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
  /** Throws when the CPI breaks the contract. May return what a user wants to see of the answer. */
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

/** Throws unless the call fails with this reason; `type` is BOSH's name of the error. */
export async function requireFailure(calling: Promise<unknown>, reason: string, type: string): Promise<void> {
  const wanted = `it must fail with Bosh::Clouds::${type}`;
  try {
    await calling;
  } catch (error) {
    if (error instanceof DomainError && error.reason === reason) return;
    throw new Error(`${wanted}, and failed otherwise: ${messageOf(error)}`, { cause: error });
  }
  throw new Error(`${wanted}, and succeeded`);
}
