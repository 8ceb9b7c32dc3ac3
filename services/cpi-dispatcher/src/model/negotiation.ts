import { CpiUnusableError, usesBoshRegistry } from "@diskmesh/cpi";
import { UnavailableError } from "@diskmesh/domain";

/** The highest version of the CPI contract that this dispatcher supports. */
const HIGHEST_API_VERSION = 3;

/** The outcome of a CPI's info call. */
export type InfoOutcome =
  | { readonly kind: "answered"; readonly apiVersion: number | undefined }
  /** The CPI does not implement info. */
  | { readonly kind: "not_implemented" }
  | {
      readonly kind: "failed";
      readonly message: string;
      /** True when a retry cannot help, because the CPI's answer was malformed or missing. */
      readonly isDefinite: boolean;
    };

export interface VersionsMet {
  /** The director's preferred version; 0 for the highest available. */
  readonly preferredApiVersion: number;
  readonly info: InfoOutcome;
  /** The api_version of the VM's stemcell; 0 without a stemcell. */
  readonly stemcellApiVersion: number;
  /** True when a CPI whose info fails counts as version 1. */
  readonly assumeV1WhenInfoFails: boolean;
}

/** The negotiated protocol with a CPI for a VM. */
export interface Negotiated {
  /** `api_version` of the request. */
  readonly apiVersion: number;
  /**
   * True when the VM's agent reads its settings from the bosh-registry, which the CPI fills. Otherwise the CPI passes
   * the settings to the VM, for instance as user data.
   */
  readonly usesRegistry: boolean;
  /**
   * The format of create_vm's result. Either format is accepted when CPI and stemcell versions differ, because CPIs
   * behave differently then.
   */
  readonly createVmResult: "cid" | "cid_and_networks" | "either";
  /** True when attach_disk must return a hint. Other results are not forwarded to the agent. */
  readonly attachDiskAnswersHint: boolean;
  /** True when create_stemcell has a third argument. */
  readonly createStemcellTakesTags: boolean;
}

/**
 * Negotiates the contract version: the lowest of the versions known to both sides. The bosh-registry is unused only
 * when director, CPI and stemcell all support version 2 or later.
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
  // Throws, because a version 2 CPI treated as version 1 would make VMs whose agents find no settings.
  const message = `the CPI's version is not known, because its info method failed: ${info.message}`;
  throw info.isDefinite ? new CpiUnusableError(`${message}; repair the CPI first`) : new UnavailableError(message);
}
