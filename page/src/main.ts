import "@xyflow/svelte/dist/style.css";
import "uplot/dist/uPlot.min.css";
import "./app.css";
import { mount } from "svelte";
import App from "./App.svelte";

const target = document.getElementById("page");
if (!target) throw new Error("the page has no place");
mount(App, { target });
