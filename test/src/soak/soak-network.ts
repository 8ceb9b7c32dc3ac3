import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { NATS_COMMON_NAME } from "@diskmesh/pki";
import { temporaryFolder } from "@diskmesh/testkit";
import { Network, run } from "../namespaces/network.js";

/** Address range for network tests (RFC 2544), visible only within the soak's network namespace. */
const PREFIX = "198.18.0";
const FIRST_NUMBER = 2;

/**
 * A network namespace for each process of the soak. NATS is reached by the name in its certificate, because the
 * certificate contains only loopback addresses.
 */
export class SoakNetwork extends Network {
  constructor(names: readonly string[]) {
    super(PREFIX, new Map(names.map((name, index) => [name, index + FIRST_NUMBER])));
    const hostsFile = join(temporaryFolder(), "hosts");
    writeFileSync(hostsFile, `127.0.0.1 localhost\n${this.host("nats")} ${NATS_COMMON_NAME}\n`);
    run("mount", "--bind", hostsFile, "/etc/hosts");
  }

  /** Returns the address of NATS for clients. */
  natsAddress(port: number): string {
    return `${NATS_COMMON_NAME}:${port}`;
  }
}
