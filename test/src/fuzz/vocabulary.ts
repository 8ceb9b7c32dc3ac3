import type { Random } from "../random.js";

/**
 * Names that exist in the fuzzed mesh, except those that the mesh check's disks need. The fuzzer's certificates may,
 * for example, remove a host, and the check would then fail without a fault.
 */
export const VICTIM_HOST = "host-2";
export const VICTIM_AZ = "z2";
/** Devices of the victim's agent. */
export const VICTIM_DEVICES = [`${VICTIM_HOST}-device-1`, `${VICTIM_HOST}-device-2`] as const;

const IDS = ["fuzz-1", "fuzz-2", "fuzz-3"] as const;
const CLOUD = "azs:\n- name: z2\ndisk_types:\n- name: fuzz\n  disk_size: 1\n";
const MANIFEST = "name: fuzz\ninstance_groups:\n- name: g\n  instances: 1\n  azs: [z2]\n";

const WORDS: readonly (readonly [RegExp, readonly string[]])[] = [
  [/host_id$|^agent_id$|^vm_cid$|^made_for$/, [VICTIM_HOST, VICTIM_HOST, "host-9"]],
  [/device_ids?$/, VICTIM_DEVICES],
  [/^disk_(cid|id|name)s?$|_disk_ids?$|_cids?$/, IDS],
  [/^az$|^azs$/, [VICTIM_AZ]],
  [/^content$/, [CLOUD, "a: &a [*a]", "cpis:\n- {name: c, type: fleet}\n"]],
  [/^manifest$/, [MANIFEST, "name: fuzz\n"]],
  [/^deployments?$|^instance_id$|^task_id$|^log_id$|^token$/, IDS],
  [/^type$/, ["cloud", "cpi", "fleet"]],
  [/^name$|^group$|^rack$|^user$/, ["fuzz", ""]],
  [/^cpis?$|^az_cpi$|^migrated_from$/, ["", "fleet", "fuzz"]],
  [/^director_id$/, ["fuzz-director"]],
  [/^cpi_config_version$/, ["", "v1"]],
  [/^pool$|^disk_pool_name$/, ["", "default", "fuzz"]],
  [/^address$/, ["127.0.0.1:1", "127.0.0.1"]],
  [/^exec_path$|^image_path$|^path$/, ["/nowhere/at/all", "/dev/null"]],
  [/page_token$|resume_token$/, ["", "1.1", "eyJhIjoxfQ"]],
];

/** Returns a plausible value for a field of that name; undefined when none is known. */
export function wordFor(random: Random, fieldName: string): string | undefined {
  const words = WORDS.find(([pattern]) => pattern.test(fieldName))?.[1];
  return words && random.pick(words);
}
