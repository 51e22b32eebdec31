'use strict';
(() => {
const charts = JSON.parse(document.getElementById('data').textContent);
const hidden = new Set();
const SVG = 'http://www.w3.org/2000/svg';

/* The same texts and ticks as those that the page came with. */
const short = (v, unit) => {
	if (unit === 1) {
		const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
		let u = 0;
		for (; Math.abs(v) >= 1024 && u < 5; u++) v /= 1024;
		return v.toFixed(!u ? 0 : v < 10 ? 2 : v < 100 ? 1 : 0) + ' ' + units[u];
	}
	if (unit === 2) return +(v * 100).toPrecision(3) + '%';
	if (unit === 3) {
		if (v < 1e-3) return +(v * 1e6).toPrecision(3) + ' us';
		if (v < 1) return +(v * 1e3).toPrecision(3) + ' ms';
		return +v.toPrecision(3) + ' s';
	}
	const suffixes = ['', 'k', 'M', 'G', 'T'];
	let s = 0;
	if (Math.abs(v) >= 1e4) for (; Math.abs(v) >= 1000 && s < 4; s++) v /= 1000;
	return (v && Math.abs(v) < 1e-4 ? (+v.toPrecision(4)).toExponential() : +v.toPrecision(4)) + suffixes[s];
};
const full = (v, unit) => unit ? short(v, unit) :
	Math.abs(v) >= 1000 ? Math.round(v).toLocaleString('en') : short(v, 0);

const ticks = (low, high, log, unit) => {
	if (unit === 1 && high >= 2048) {
		const power = 1024 ** Math.floor(Math.log(high) / Math.log(1024));
		return ticks(low / power, high / power, 0, 0).map((v) => v * power);
	}
	const out = [];
	if (log) {
		const from = Math.ceil(Math.log10(low) - 1e-9), to = Math.floor(Math.log10(high) + 1e-9);
		const every = Math.trunc((to - from) / 6) + 1;
		for (let e = from; e <= to; e += every) out.push(10 ** e);
		if (out.length > 1) return out;
		out.length = 0;
	}
	const raw = (high - low) / 5, power = 10 ** Math.floor(Math.log10(raw)), m = raw / power;
	const each = power * (m <= 1.0001 ? 1 : m <= 2.0001 ? 2 : m <= 5.0001 ? 5 : 10);
	if (!(high > low) || !isFinite(each)) return [low];
	for (let k = Math.ceil(low / each - 1e-9); k * each <= high + each * 1e-9 && out.length < 9; k++) out.push(k * each + 0);
	return out;
};

/* The scale of what is shown: steps [x0, x1] of the runs that are on. */
const scale = (chart) => {
	const [x0, x1] = chart.shown;
	let y0 = Infinity, y1 = -Infinity;
	for (const c of chart.curves) {
		if (c.kind === 'marks' || hidden.has(c.run)) continue;
		for (let i = 0; i < c.x.length; i++)
			if (c.x[i] >= x0 && c.x[i] <= x1 && c.y[i] !== null) {
				y0 = Math.min(y0, c.y[i]);
				y1 = Math.max(y1, c.y[i]);
			}
	}
	if (!(y1 >= y0)) { y0 = 0; y1 = 1; }
	if (chart.log && y0 > 0) { y0 /= 1.2; y1 *= 1.2; }
	else {
		let pad = y1 > y0 ? 0.04 * (y1 - y0) : Math.abs(y1) * 0.1 + 1e-12;
		if (chart.unit === 1) pad = Math.max(pad, 0.05 * y1);
		y0 = y0 >= 0 && y0 < 0.3 * y1 ? 0 : y0 - pad;
		y1 += pad;
	}
	const log = chart.log && y0 > 0;
	return { x0, x1, y0, y1, log,
		x: (v) => 1000 * (v - x0) / (x1 - x0),
		y: (v) => log ? 1000 - 1000 * Math.log(v / y0) / Math.log(y1 / y0) : 1000 - 1000 * (v - y0) / (y1 - y0) };
};

const path = (c, s) => {
	let d = '', pen = 'M';
	for (let i = 0; i < c.x.length; i++) {
		if (c.y[i] === null) continue;
		/* one point beyond each edge, so that curves reach it */
		if ((i + 1 < c.x.length && c.x[i + 1] < s.x0) || (i && c.x[i - 1] > s.x1)) continue;
		const x = s.x(c.x[i]).toFixed(1);
		if (c.kind === 'marks') d += c.y[i] > 0 && c.x[i] >= s.x0 && c.x[i] <= s.x1 ? `M${x} 1000V940` : '';
		else { d += `${pen}${x} ${s.y(c.y[i]).toFixed(1)}`; pen = 'L'; }
	}
	return c.x.length === 1 && c.kind !== 'marks' ? d + 'h0' : d;
};

const spans = (box, values, place, unit, side) => {
	box.textContent = '';
	for (const v of values) {
		const e = document.createElement('span');
		e.style[side] = place(v) / 10 + '%';
		e.textContent = short(v, unit);
		box.append(e);
	}
};

const draw = (chart) => {
	const s = chart.scale = scale(chart);
	const all = chart.svg.querySelectorAll('path[data-run]');
	chart.curves.forEach((c, i) => {
		all[i].setAttribute('d', path(c, s));
		all[i].classList.toggle('off', hidden.has(c.run));
	});
	const y = ticks(s.y0, s.y1, s.log, chart.unit);
	chart.svg.querySelector('.grid').setAttribute('d', y.map((v) => `M0 ${s.y(v).toFixed(1)}H1000`).join(''));
	spans(chart.plot.querySelector('.ys'), y, s.y, chart.unit, 'top');
	spans(chart.plot.querySelector('.xs'), ticks(s.x0, s.x1), s.x, 0, 'left');
	chart.reset.hidden = chart.shown[0] === chart.range[0] && chart.shown[1] === chart.range[1];
	for (const li of chart.figure.querySelectorAll('.legend li')) li.classList.toggle('off', hidden.has(+li.dataset.run));
};

const nearest = (c, x) => {
	let low = 0, high = c.x.length - 1;
	while (high - low > 1) {
		const mid = (low + high) >> 1;
		if (c.x[mid] < x) low = mid; else high = mid;
	}
	return Math.abs(c.x[low] - x) <= Math.abs(c.x[high] - x) ? low : high;
};

const hover = (chart, part) => {
	const s = chart.scale, x = s.x0 + part * (s.x1 - s.x0);
	const shown = chart.curves.filter((c) => c.x.length && !hidden.has(c.run) && c.kind !== 'marks' &&
		(c.kind !== 'mean'));
	if (!shown.length) return;
	const at = shown[0].x[nearest(shown[0], x)];
	chart.cross.setAttribute('d', `M${s.x(at).toFixed(1)} 0V1000`);
	const tip = chart.plot.querySelector('.tip');
	tip.textContent = 'step ' + Math.round(at).toLocaleString('en');
	for (const c of shown) {
		const i = nearest(c, at), row = document.createElement('div'), mark = document.createElement('i');
		mark.className = 'b' + c.colour;
		row.append(mark, `${c.label} ${c.y[i] === null ? '-' : full(c.y[i], chart.unit)}` +
			(c.x[i] === at ? '' : ` (step ${Math.round(c.x[i])})`));
		tip.append(row);
	}
	tip.hidden = false;
	const box = chart.svg.getBoundingClientRect(), outer = chart.plot.getBoundingClientRect();
	const left = box.left - outer.left + box.width * s.x(at) / 1000;
	tip.style.left = Math.max(0, left + (left > outer.width / 2 ? -tip.offsetWidth - 10 : 10)) + 'px';
	tip.style.top = '10px';
};

const listen = (chart) => {
	const part = (e) => {
		const box = chart.svg.getBoundingClientRect();
		return Math.min(1, Math.max(0, (e.clientX - box.left) / box.width));
	};
	let from = null, chosen = null;
	chart.plot.addEventListener('pointerdown', (e) => {
		if (e.button) return;
		from = part(e);
		chosen = document.createElementNS(SVG, 'rect');
		chosen.setAttribute('class', 'chosen');
		chosen.setAttribute('height', 1000);
		chart.svg.append(chosen);
		if (e.pointerType === 'mouse') chart.plot.setPointerCapture(e.pointerId);
	});
	chart.plot.addEventListener('pointermove', (e) => {
		const to = part(e);
		hover(chart, to);
		if (from === null) return;
		chosen.setAttribute('x', 1000 * Math.min(from, to));
		chosen.setAttribute('width', 1000 * Math.abs(to - from));
	});
	const end = (e) => {
		if (from === null) return;
		const to = part(e), s = chart.scale, low = Math.min(from, to), high = Math.max(from, to);
		chosen.remove();
		from = null;
		if (e.type === 'pointerup' && high - low > 0.02) {
			chart.shown = [s.x0 + low * (s.x1 - s.x0), s.x0 + high * (s.x1 - s.x0)];
			draw(chart);
		}
	};
	chart.plot.addEventListener('pointerup', end);
	chart.plot.addEventListener('pointercancel', end);
	chart.plot.addEventListener('pointerleave', () => {
		chart.plot.querySelector('.tip').hidden = true;
		chart.cross.setAttribute('d', '');
	});
	const all = () => { chart.shown = chart.range; draw(chart); };
	chart.plot.addEventListener('dblclick', all);
	chart.reset.addEventListener('click', all);
};

for (const [id, chart] of Object.entries(charts)) {
	chart.figure = document.getElementById(id);
	chart.plot = chart.figure.querySelector('.plot');
	chart.svg = chart.plot.querySelector('svg');
	chart.reset = chart.figure.querySelector('.reset');
	chart.cross = document.createElementNS(SVG, 'path');
	chart.cross.setAttribute('class', 'cross');
	chart.svg.append(chart.cross);
	chart.shown = chart.range;
	chart.scale = scale(chart);
	listen(chart);
}
for (const box of document.querySelectorAll('.runs input'))
	box.addEventListener('change', () => {
		if (box.checked) hidden.delete(+box.value); else hidden.add(+box.value);
		Object.values(charts).forEach(draw);
	});
for (const box of document.querySelectorAll('.zoom input'))
	box.addEventListener('input', () =>
		box.closest('figure').querySelector('.inner').style.setProperty('--zoom', box.value));
})();
