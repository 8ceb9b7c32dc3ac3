import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "@diskmesh/testkit";
import { repositoryFolder } from "../repository-folder.js";

const VERSION = "0.1.0";
const SERVICES = ["director", "cpi-dispatcher", "disk-registry", "disk-agent"];

/** A folder with an archive that has the layout of a release; its programs are those of this repository. */
export function releaseArchive(): string {
  const folder = temporaryFolder();
  const name = `diskmesh-${VERSION}`;
  const top = join(folder, name);
  for (const part of ["bin", "systemd"]) mkdirSync(join(top, part), { recursive: true });
  const addProgram = (program: string, main: string): void => {
    const line = `exec ${process.execPath} ${join(repositoryFolder, main)} "$@"`;
    writeFileSync(join(top, "bin", program), `#!/bin/sh\n${line}\n`, { mode: 0o755 });
  };
  addProgram("diskmesh", "packages/cli/dist/main.js");
  const built = process.env.DISKMESH_BUNDLED === undefined ? "dist" : "bundle";
  for (const service of SERVICES) {
    addProgram(`diskmesh-${service}`, `services/${service}/${built}/main.js`);
    const start = `ExecStart=/opt/diskmesh/bin/diskmesh-${service} --config /etc/diskmesh/${service}.yaml`;
    const restart = "Restart=on-failure\nRestartPreventExitStatus=78";
    writeFileSync(join(top, "systemd", `diskmesh-${service}.service`), `[Service]\n${start}\n${restart}\n`);
  }
  const archive = `${name}.tar.gz`;
  execFileSync("tar", ["-czf", archive, name], { cwd: folder });
  writeFileSync(join(folder, `${archive}.sha256`), execFileSync("sha256sum", [archive], { cwd: folder }));
  rmSync(top, { recursive: true });
  return folder;
}
