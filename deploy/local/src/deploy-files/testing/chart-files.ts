import { spawnSync } from "node:child_process";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "@diskmesh/testkit";
import { deploy, diskmesh, repository } from "./release-facts.js";

export const chart = join(deploy, "helm/diskmesh");

/** Reads a file of the chart. */
export const readChart = (file: string): string => readFileSync(join(chart, file), "utf8");

/** Replicas of the parts that others reach by the names of their pods. */
export const REPLICAS: Readonly<Record<string, number>> = {
  director: 2,
  "cpi-dispatcher": 2,
  "disk-registry": 2,
  nats: 3,
};

/** Certificates and secrets, as docs/guides/kubernetes.md makes them of the chart's list. */
export class ChartSecrets {
  readonly #folder = temporaryFolder();

  constructor() {
    const pki = join(this.#folder, "pki");
    diskmesh("pki", "make", "--folder", pki, "--list", join(chart, "mesh.list"));
    diskmesh("nats-config", join(this.#folder, "nats"), "--folder", pki, "--installed-in", "/etc/diskmesh");
    writeFileSync(join(this.#folder, "database"), "mongodb://db-0.db,db-1.db/diskmesh?replicaSet=db\n");
  }

  /** Returns the path of a holder's certificate. */
  certificateOf(holder: string): string {
    return join(this.#folder, `pki/${holder}.pem`);
  }

  /** Returns a folder with the files of /etc/diskmesh of a holder, and `config` under its name, with that path replaced. */
  mounted(holder: string, name: string, config: string): string {
    const folder = temporaryFolder();
    const pki = join(this.#folder, "pki");
    const [nats, database] = [join(this.#folder, "nats"), join(this.#folder, "database")];
    const sources: Record<string, string> = {
      "ca.pem": holder.startsWith("nats-") ? join(nats, "ca.pem") : join(pki, "ca.pem"),
      "cert.pem": this.certificateOf(holder),
      "key.pem": this.certificateOf(`${holder}-key`),
    };
    if (!holder.startsWith("nats-")) sources.revoked = join(pki, "revoked");
    if (/^(director|disk-registry)$/.test(holder)) sources.database = database;
    if (holder === "director") sources["nats-issuer.seed"] = join(pki, "nats-issuer.seed");
    for (const [file, source] of Object.entries(sources)) copyFileSync(source, join(folder, file));
    const texts: Record<string, string> = { [name]: config };
    if (holder.startsWith("nats-"))
      for (const file of ["auth-callout.conf", "cluster-tls.conf"])
        texts[file] = readFileSync(join(nats, file), "utf8");
    for (const [file, text] of Object.entries(texts))
      writeFileSync(join(folder, file), text.replaceAll("/etc/diskmesh", folder));
    return folder;
  }
}

/** Runs `--check-config` of a service. Returns its exit code and output. */
export function checkConfig(service: string, file: string): string {
  const main = join(repository, "services", service, "dist/main.js");
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, "--check-config", file], {
    env: { PATH: process.env.PATH },
    encoding: "utf8",
  });
  return `${status} ${stdout}${stderr}`;
}
