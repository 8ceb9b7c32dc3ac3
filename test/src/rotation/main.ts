import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { messageOf } from "@diskmesh/domain";
import { createAuthority } from "@diskmesh/pki";
import { ReplacedFiles } from "./replaced-files.js";
import { RotatedFleet } from "./rotated-fleet.js";
import { ROTATED_HOSTS } from "./rotated-services.js";

const USAGE = "npm run rotation -- [--minutes N] [--valid-seconds N]";
/** Share of a certificate's validity after which it is replaced. */
const REPLACED_AFTER = 0.4;
/** Number of rotations after which another authority signs the certificates, and all former ones are revoked. */
const ROTATIONS_OF_AN_AUTHORITY = 3;

function positive(name: string, text: string): number {
  const value = Number(text);
  if (Number.isFinite(value) && value > 0) return value;
  throw new Error(`--${name} is ${text}: give a number above 0`);
}

/** Rotates short-lived certificates of all processes for this long while they work. Returns the failures. */
async function rotate(minutes: number, validSeconds: number): Promise<readonly string[]> {
  const certificates = new ReplacedFiles(ROTATED_HOSTS, validSeconds / 86_400);
  let authorities = 1;
  const another = () => createAuthority({ commonName: `authority ${authorities++}`, validDays: 1 });
  let authority = await another();
  certificates.trust(authority);
  certificates.revokeFormer();
  await certificates.issueAll(authority);
  let issuedAtMs = performance.now();
  await using rotated = await RotatedFleet.start(certificates);
  const beganAtMs = performance.now();
  for (let rotation = 1; performance.now() - beganAtMs < minutes * 60_000; rotation++) {
    await delay(Math.max(0, issuedAtMs + validSeconds * 1_000 * REPLACED_AFTER - performance.now()));
    const atMs = performance.now();
    const isOfAnother = rotation % ROTATIONS_OF_AN_AUTHORITY === 0;
    try {
      if (isOfAnother) {
        const former = authority;
        authority = await another();
        await rotated.step(() => certificates.trust(former, authority));
      }
      await rotated.step(() => certificates.issueAll(authority));
      const ageSeconds = Math.round((performance.now() - issuedAtMs) / 1_000);
      issuedAtMs = atMs;
      if (isOfAnother) {
        await rotated.step(() => certificates.trust(authority));
        await rotated.step(() => certificates.revokeFormer());
      }
      process.stdout.write(
        `${secondsSince(beganAtMs)} s: rotation ${rotation}${isOfAnother ? ", by another authority" : ""}, the former in use for ${ageSeconds} s; ${rotated.figures}\n`,
      );
    } catch (error) {
      return [`rotation ${rotation} after ${secondsSince(beganAtMs)} s: ${messageOf(error)}`, ...rotated.failures];
    }
  }
  return rotated.failures;
}

const secondsSince = (atMs: number): number => Math.round((performance.now() - atMs) / 1_000);

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    "valid-seconds": { type: "string", default: "60" },
    help: { type: "boolean" },
  },
});
if (values.help) process.stdout.write(`${USAGE}\n`);
else {
  const validSeconds = positive("valid-seconds", values["valid-seconds"]);
  const failures = await rotate(positive("minutes", values.minutes), validSeconds);
  for (const failure of failures.slice(0, 20)) process.stdout.write(`VIOLATION: ${failure}\n`);
  process.stdout.write(failures.length === 0 ? "nothing failed\n" : `${failures.length} failures\n`);
  process.exitCode = failures.length === 0 ? 0 : 1;
}
