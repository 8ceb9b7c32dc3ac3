// Mocha's spec reporter, which also leaves what it counted in a file: the command that runs mocha prints the last line
// and the failures once more below everything, and judges the skips. CommonJS, because mocha loads reporters by require.
const { writeFileSync } = require("node:fs");
const Mocha = require("mocha");

const { EVENT_TEST_PASS, EVENT_TEST_FAIL, EVENT_TEST_PENDING } = Mocha.Runner.constants;

module.exports = class Reporter extends Mocha.reporters.Spec {
  constructor(runner, options) {
    super(runner, options);
    this.counted = { passed: 0, failed: 0, skipped: [], failures: [] };
    this.resultFile = options.reporterOptions.resultFile;
    runner.on(EVENT_TEST_PASS, () => {
      this.counted.passed += 1;
    });
    runner.on(EVENT_TEST_FAIL, (test, error) => {
      this.counted.failed += 1;
      this.counted.failures.push({ title: test.fullTitle(), error: error?.stack ?? String(error) });
    });
    runner.on(EVENT_TEST_PENDING, (test) => this.counted.skipped.push(test.fullTitle()));
  }

  done(failures, exit) {
    writeFileSync(this.resultFile, JSON.stringify(this.counted));
    exit(failures);
  }
};
