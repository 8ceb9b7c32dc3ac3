/** A module of its own, so that it is in the bundle of a service and not searched for in many files. */
export { connect } from "nats";
