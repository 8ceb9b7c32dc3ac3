import { InvalidStateError } from "@diskmesh/domain";
import type { VmBasis } from "../store/instance.js";
import { formatInstance, type Instance } from "../store/instance.js";
import { sameJson } from "../store/json.js";
import type { PersistentDisk } from "../store/persistent-disk.js";

/** The VM that the manifest and the configs specify now. */
export interface WantedVm {
  readonly cpi: string;
  readonly basis: VmBasis;
}

export type VmChange =
  | { readonly do: "keep" }
  /** Changes the VM's metadata in place. */
  | { readonly do: "set_metadata" }
  /** Stops and starts the VM's jobs. */
  | { readonly do: "restart" }
  | { readonly do: "recreate"; readonly because: string };

const KEEP: VmChange = { do: "keep" };

/**
 * Returns the change that a deploy makes to an existing VM. A newer version of the CPI contract causes no change (seed
 * 000).
 */
export function decideVmChange(
  instance: Instance,
  wanted: WantedVm,
  disk: PersistentDisk | undefined,
  isSameCpi: (recorded: string, wanted: string) => boolean,
): VmChange {
  const { basis: was } = instance;
  if (!was) return KEEP;
  const moves = !isSameCpi(instance.cpi, wanted.cpi);
  if (moves && disk !== undefined && !isSameCpi(disk.cpi, wanted.cpi)) throw diskStaysBehind(instance, wanted, disk);
  const { basis } = wanted;
  const reasons = [
    moves ? `its az has CPI ${quotedCpi(wanted.cpi)} instead of ${quotedCpi(instance.cpi)}` : "",
    was.stemcell === basis.stemcell
      ? ""
      : `its stemcell is to be \`${basis.stemcell || "none"}\` instead of \`${was.stemcell || "none"}\``,
    // The message contains only names, because values may be secret.
    sameJson(was.cloudProperties, basis.cloudProperties) ? "" : "its cloud properties have changed",
    sameJson(was.networks, basis.networks) ? "" : "its networks have changed",
    sameJson(was.env, basis.env) ? "" : "its env has changed",
  ].filter((reason) => reason !== "");
  if (reasons.length > 0) return { do: "recreate", because: reasons.join(", ") };
  return was.member === basis.member && sameJson(was.tags, basis.tags) ? KEEP : { do: "set_metadata" };
}

function diskStaysBehind(instance: Instance, wanted: WantedVm, disk: PersistentDisk): Error {
  return new InvalidStateError(
    `${formatInstance(instance)} cannot move to CPI ${quotedCpi(wanted.cpi)}, because its persistent disk \`${disk.diskCid}\` uses CPI ${quotedCpi(disk.cpi)}: give the az that CPI back, list that CPI in migrated_from if it was renamed, or remove the disk first, which orphans it`,
    { about: { instance_id: instance.instanceId, disk_cid: disk.diskCid } },
  );
}

function quotedCpi(cpi: string): string {
  return cpi === "" ? "(default)" : `\`${cpi}\``;
}
