import './base.css';
import './jobs.css';
import './job.css';
import './picker.css';
import './plots.css';
import './log.css';
import './logparts.css';
import './logcolours.css';
