import { CpiUnusableError, usesBoshRegistry } from "@diskmesh/cpi";
import { UnavailableError } from "@diskmesh/domain";

/** The highest version of the CPI contract that this dispatcher speaks. */
const HIGHEST_API_VERSION = 3;

/** The outcome of asking a CPI for its info. */
export type InfoOutcome =
  | { readonly kind: "answered"; readonly apiVersion: number | undefined }
  /** The CPI knows no such method. */
  | { readonly kind: "not_implemented" }
  | {
      readonly kind: "failed";
      readonly message: string;
      /** Nothing will make it better but somebody who mends the CPI: its answer was malformed, or there was none. */
      readonly isDefinite: boolean;
    };

export interface VersionsMet {
  /** The director's preferred version; 0 for the highest there is. */
  readonly preferredApiVersion: number;
  readonly info: InfoOutcome;
  /** api_version of the VM's stemcell; 0 when it has none. */
  readonly stemcellApiVersion: number;
  /** True when a CPI whose info fails counts as version 1. */
  readonly assumeV1WhenInfoFails: boolean;
}

/** How to speak with a CPI about one VM. */
export interface Negotiated {
  /** `api_version` of the request. */
  readonly apiVersion: number;
  /**
   * True when the VM's agent reads its settings from the bosh-registry, which the CPI then fills; otherwise the CPI
   * gives them to the VM itself, as user data for instance.
   */
  readonly usesRegistry: boolean;
  /** The answer of create_vm; either form when CPI and stemcell are of different ages, since CPIs differ there. */
  readonly createVmResult: "cid" | "cid_and_networks" | "either";
  /** True when attach_disk must answer a hint. Other answers are not for the agent. */
  readonly attachDiskAnswersHint: boolean;
  /** True when create_stemcell has a third argument. */
  readonly createStemcellTakesTags: boolean;
}

/**
 * Settles which version of the contract is spoken: the lower of what both sides know. The bosh-registry stays out only when
 * director, CPI and stemcell are all of version 2 or later.
 */
export function negotiate(met: VersionsMet): Negotiated {
  const preferred = met.preferredApiVersion === 0 ? HIGHEST_API_VERSION : met.preferredApiVersion;
  const apiVersion = Math.min(cpiVersion(met), preferred, HIGHEST_API_VERSION);
  const usesRegistry = usesBoshRegistry(apiVersion, met.stemcellApiVersion);
  const newResult = usesRegistry ? "either" : "cid_and_networks";
  return {
    apiVersion,
    usesRegistry,
    createVmResult: apiVersion < 2 ? "cid" : newResult,
    attachDiskAnswersHint: !usesRegistry,
    createStemcellTakesTags: apiVersion >= 3,
  };
}

function cpiVersion({ info, assumeV1WhenInfoFails }: VersionsMet): number {
  if (info.kind === "answered") return Math.max(1, info.apiVersion ?? 1);
  if (info.kind === "not_implemented" || assumeV1WhenInfoFails) return 1;
  // A CPI of version 2 in trouble, taken for one of version 1, would leave VMs whose agents find no settings.
  const message = `the CPI's version is not known, because its info method failed: ${info.message}`;
  throw info.isDefinite ? new CpiUnusableError(`${message}; mend the CPI first`) : new UnavailableError(message);
}
