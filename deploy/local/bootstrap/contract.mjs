import { Failure } from "./run.mjs";
import { runTests } from "./tests.mjs";

const USAGE = `usage: npm run contract -- mongodb://HOST:27017 [arguments of the kill test]
The server's database diskmesh_test is written to.`;

/** Test files that only a server decides: the storage contract with kills, restores, and takeovers of services. */
const SUITES = ["packages/tablet/src/mongo/", "services/disk-registry/src/takeover", "services/director/src/takeover"];

/**
 * Runs the suites of the MongoDB adapter against a running server, then the kill test with `runKillTest`. Returns the
 * exit code.
 */
export async function runContract(root, [url = "", ...args], runKillTest) {
  if (!/^mongodb(?:\+srv)?:\/\/[^/]/.test(url)) throw new Failure(USAGE);
  process.env.DISKMESH_TEST_MONGODB_URL = url;
  const exitCode = await runTests(root, SUITES);
  process.argv.splice(2, process.argv.length, "--store", "mongodb", ...args);
  await runKillTest();
  return exitCode || process.exitCode;
}
