import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "./folders.js";

/** A stemcell in BOSH's format, packed by the system's own tar. */
export function stemcellFile(
  manifest: object = {},
  {
    image = "an image",
    packages = "ignored",
    files = ["stemcell.MF", "image"],
  }: { image?: string; packages?: string; files?: readonly string[] } = {},
): Buffer {
  const folder = temporaryFolder();
  mkdirSync(folder, { recursive: true });
  const sha1 = createHash("sha1").update(image).digest("hex");
  const whole = {
    name: "ubuntu",
    version: "1.10",
    operating_system: "ubuntu-noble",
    sha1,
    api_version: 3,
    ...manifest,
  };
  writeFileSync(join(folder, "stemcell.MF"), JSON.stringify(whole));
  writeFileSync(join(folder, "image"), image);
  writeFileSync(join(folder, "packages.txt"), packages);
  execFileSync("tar", ["--hard-dereference", "-czf", "out.tgz", ...files], { cwd: folder });
  return readFileSync(join(folder, "out.tgz"));
}
