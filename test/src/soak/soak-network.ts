import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { NATS_COMMON_NAME } from "@diskmesh/pki";
import { temporaryFolder } from "@diskmesh/testkit";
import { Network, run } from "../namespaces/network.js";

/** The range that is set aside for tests of networks; it is seen only within the soak's own network namespace. */
const PREFIX = "198.18.0";
const FIRST_NUMBER = 2;

/**
 * A network of its own for each process of the soak, in which NATS has the name of its certificate, which holds no
 * addresses but those of loopback.
 */
export class SoakNetwork extends Network {
  constructor(names: readonly string[]) {
    super(PREFIX, new Map(names.map((name, index) => [name, index + FIRST_NUMBER])));
    const hostsFile = join(temporaryFolder(), "hosts");
    writeFileSync(hostsFile, `127.0.0.1 localhost\n${this.host("nats")} ${NATS_COMMON_NAME}\n`);
    run("mount", "--bind", hostsFile, "/etc/hosts");
  }

  /** Where clients find NATS. */
  natsAddress(port: number): string {
    return `${NATS_COMMON_NAME}:${port}`;
  }
}
