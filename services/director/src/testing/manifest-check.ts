import { join } from "node:path";
import { messageOf } from "@diskmesh/domain";
import { openStorage, Tablet } from "@diskmesh/tablet";
import { temporaryFolder } from "@diskmesh/testkit";
import { checkManifest, place } from "../deployments/manifest-check.js";
import { newInstance } from "../instances/instance.js";
import { type DirectorTablet, storedSchema } from "../store/stored-schema.js";
import { parseCloudConfig } from "../yaml/cloud-config.js";
import { type Manifest, parseManifest } from "../yaml/manifest.js";

export const LIMITS = { sizeBytes: 100_000 };

export const CLOUD = `
azs: [{name: z1}, {name: z2}, {name: z3}]
networks:
- name: net
  subnets:
  - {range: 10.0.1.0/24, gateway: 10.0.1.1, az: z1, static: [10.0.1.10-10.0.1.20], reserved: [10.0.1.30]}
  - {range: 10.0.2.0/24, gateway: 10.0.2.1, az: z2, static: [10.0.2.10-10.0.2.20]}
  - {range: 10.0.3.0/24, gateway: 10.0.3.1, azs: [z1, z2], static: [10.0.3.10-10.0.3.20]}
- {name: other, subnets: [{range: 10.1.0.0/24, az: z2, static: [10.1.0.10]}]}
- name: six
  subnets: [{range: "2001:db8::/64", gateway: "2001:db8::1", az: z1, static: ["2001:db8::10-2001:db8::20"], dns: ["2001:db8::53"]}]
- {name: plain, subnets: [{range: 10.2.0.0/24, static: [10.2.0.9]}]}
- {name: dyn, type: dynamic}
- {name: vip, type: vip}
`;

/** Returns a manifest with one instance group. `more` is added at the top level. */
export const web = (group: string, more = "", azs = "azs: [z1, z2]"): string =>
  `name: web\n${more}\ninstance_groups:\n- name: db\n  ${[azs, ...group.split("\n")].filter(Boolean).join("\n  ")}\n`;

/** Checks manifests as a deploy does first, against a store with instances of three deployments. */
export class ManifestCheck {
  readonly #tablet: DirectorTablet;

  private constructor(tablet: DirectorTablet) {
    this.#tablet = tablet;
  }

  static async open(): Promise<ManifestCheck> {
    const storage = openStorage(join(temporaryFolder(), "state"), "director");
    const tablet = await Tablet.open({ name: "director", schema: storedSchema, storage, address: "" });
    await tablet.transact((tx) => {
      const theirs = newInstance({ instanceId: "theirs", deployment: "ci", group: "a", index: 0, az: "z1" });
      tx.instances.put({ ...theirs, ips: { net: "10.0.1.15" } });
      const ours = newInstance({ instanceId: "ours", deployment: "here", group: "db", index: 0, az: "z1" });
      tx.instances.put({ ...ours, ips: { net: "10.0.1.11" } });
      const nowhere = newInstance({ instanceId: "nowhere", deployment: "plain", group: "db", index: 0, az: "" });
      tx.instances.put(nowhere);
    });
    return new ManifestCheck(tablet);
  }

  close(): Promise<void> {
    return this.#tablet.close();
  }

  /** Returns the parsed manifest and the placement of its instances. Throws when a deploy would refuse the manifest. */
  async accept(
    text: string,
    { cloud = CLOUD, ignoreJobs = false } = {},
  ): Promise<{ manifest: Manifest; placed: string }> {
    const config = parseCloudConfig(cloud, { ...LIMITS, what: "cloud config" });
    const manifest = parseManifest(text, { ...LIMITS, what: "manifest", instances: 100, ignoreJobs });
    return this.#tablet.read((tables) => {
      const configs = { cloud: { current: () => config }, cpi: { current: () => ({ cpis: undefined }) } };
      checkManifest(configs, tables, manifest);
      const { added, migrated } = place(tables, manifest.name, manifest.groups, config, () => "");
      return {
        manifest,
        placed: [...migrated, ...added].map(({ group, index, az }) => `${group}/${index}@${az}`).join(" "),
      };
    });
  }

  /** Returns the message with which the manifest is refused. */
  async refusal(text: string): Promise<string> {
    try {
      await this.accept(text);
    } catch (error) {
      return messageOf(error);
    }
    return "accepted";
  }
}
